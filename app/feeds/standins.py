"""What stands in entries for elements that may not come out (H01) but whose text was meant to be read."""

from __future__ import annotations

import html
import re

from app.feeds import tags, text

#: What the functions below look for.
NAMES = frozenset(["math", "script", "textarea", "xmp", "dialog", "input"])
_INPUT = tags.tag("input")
_SPAN = re.compile(r"<(/?)span(?=[\s/>])([^<>]*+)>", re.IGNORECASE)
_ANNOTATION = re.compile(r"<annotation(?=[\s>])([^<>]*+)>([^<]*+)", re.IGNORECASE)


def math(markup: str) -> str:
    """Return the HTML with formulas as their TeX, or else as their text.

    KaTeX sets each formula twice, as MathML and in pieces for the eye, which without its style sheet
    are heaps of letters.
    """
    if "katex-html" in markup:
        markup = _without_pieces(markup)
    return tags.replace("math", markup, _formula)


def _formula(found: re.Match[str]) -> str:
    tex = next((inner for given, inner in _ANNOTATION.findall(found[2]) if "application/x-tex" in given), "")
    words = text.flat(tex) or tags.attributes(found[1]).get("alttext")
    return _code(words or text.flat(_ANNOTATION.sub("", found[2])))


def _without_pieces(markup: str) -> str:
    kept, at, depth = [], 0, 0
    for span in _SPAN.finditer(markup):
        if depth:
            depth += -1 if span[1] else 1
            at = span.end()
        elif "katex-html" in span[2]:
            kept.append(markup[at : span.start()])
            depth = 1
    return markup if depth else "".join(kept) + markup[at:]


def tex(markup: str) -> str:
    """Return the HTML with the TeX that MathJax finds in scripts as code."""
    return tags.replace("script", markup, _tex)


def _tex(found: re.Match[str]) -> str:
    if not tags.attributes(found[1]).get("type", "").lower().startswith(("math/tex", "math/asciimath")):
        return found[0]
    inner = found[2]
    for wrapping in ("% <![CDATA[", "%]]>", "<![CDATA[", "]]>"):
        inner = inner.replace(wrapping, "")
    return _code(" ".join(inner.split()))


def _code(words: str) -> str:
    return f"<code>{html.escape(words, quote=False)}</code>" if words else ""


def source(markup: str) -> str:
    """Return the HTML with what old pages show code in as <pre>: nothing in there is markup."""
    markup = tags.replace("textarea", markup, lambda found: _pre(found[2]))
    # Other than in the one above no reference counts in this one.
    return tags.replace("xmp", markup, lambda found: _pre(found[2].replace("&", "&amp;")))


def _pre(words: str) -> str:
    escaped = words.replace("<", "&lt;").replace(">", "&gt;")
    return f"<pre>{escaped}</pre>" if words.strip() else ""


def controls(markup: str) -> str:
    """Return the HTML with open dialogs as what is in them, and the boxes of lists of tasks as signs."""
    markup = tags.replace("dialog", markup, _dialog)
    return _INPUT.sub(_box, markup)


def _dialog(found: re.Match[str]) -> str:
    return f"<div>{found[2]}</div>" if "open" in tags.attributes(found[1]) else ""


def _box(found: re.Match[str]) -> str:
    given = tags.attributes(found[2])
    if given.get("type", "").lower() != "checkbox":
        return found[0]
    return "☑" if "checked" in given else "☐"
