"""Pictures that a script of their page would load: they are given the addresses that it would have put in."""

from __future__ import annotations

import html
import re

from app.feeds import tags, text

_ADDRESS = re.compile(r"""\sdata-(?:lazy-)?(?:src|srcset|original)\s*+=\s*+["']?([^"'<>]++)""", re.IGNORECASE)
_IMG = tags.tag("img")
#: Of what the sanitiser wrote, with quotes escaped in all values.
_VALUE = re.compile(r' data-(?:lazy-)?(src|srcset|original)="([^"]*)"')
_PLACEHOLDER = re.compile(r' src="(?:data:[^"]*|[^"]*(?:blank|spacer|placeholder|lazy|loading)[^"]*)"')
_SRC = re.compile(r' src="[^"]*"')
_SRCSET = re.compile(r' srcset="[^"]*"')


def without_copies(markup: str) -> str:
    """Return the HTML without each <noscript> that only holds pictures which scripts would load."""
    lazy = set(html.unescape(" ".join(_ADDRESS.findall(markup))).replace(",", " ").split())

    def replacement(found: re.Match[str]) -> str:
        sources = [tags.attributes(inner).get("src", "") for _, inner in _IMG.findall(found[2])]
        copied = sources and lazy.issuperset(sources) and not text.flat(found[2])
        return "" if copied else found[0]

    return tags.replace("noscript", markup, replacement) if lazy else markup


def shown(attributes: str) -> str:
    """Return clean attributes (each with a space before it) with what is there for scripts put in place."""
    values: dict[str, str] = {}
    for name, value in _VALUE.findall(attributes):
        values.setdefault("srcset" if name == "srcset" else "src", value)
    attributes = _VALUE.sub("", attributes)
    if "srcset" in values:
        attributes = _PLACEHOLDER.sub("", _SRCSET.sub("", attributes)) + f' srcset="{values["srcset"]}"'
    if "src" in values:
        attributes = f' src="{values["src"]}"' + _SRC.sub("", attributes)
    return attributes
