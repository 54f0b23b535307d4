"""Pictures that a script of their page would load: they are given the addresses that it would have put in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from app.feeds.html import tag_patterns, text
from app.feeds.html.allow_list import LAZY, LAZY_SETS, judge

#: What :func:`from_amp` looks at.
NAMES = frozenset(["amp-img", "amp-anim"])
_AMP = tag_patterns.tag("/?amp-(?:img|anim)")
_IMG = tag_patterns.tag("img")
#: What may stand between a picture and its copy.
_GAP = re.compile(r"\s*+(?:</picture\s*+>\s*+)?", re.IGNORECASE)
_FOR_SCRIPTS = frozenset([*LAZY, *LAZY_SETS])
_JUDGED = ("src", "srcset", "width", "height", *LAZY, *LAZY_SETS)
_PLACEHOLDER = re.compile(r"data:|.*(?:blank|spacer|placeholder|lazy|loading)", re.DOTALL)
_PICTURE = re.compile(r"\.(?:avif|bmp|gif|jfif|jpe?g|jxl|png|svg|webp)(?![A-Za-z0-9])", re.IGNORECASE)
_PAGE = re.compile(r"(?:/|\.x?html?)(?:[?#]|\Z)", re.IGNORECASE)


def from_amp(markup: str) -> str:
    """Return the HTML with AMP's pictures as pictures, without those that stand in until they have come."""
    return _AMP.sub(_from_amp, markup)


def _from_amp(found: re.Match[str]) -> str:
    if found[1].startswith("/") or tag_patterns.attributes(found[2]).keys() & {"placeholder", "fallback"}:
        return ""
    return f"<img data-amp{found[2]}>"  # a script loads them: they have copies as other lazy ones have


def without_copies(markup: str) -> str:
    """Return the HTML without each <noscript> that only holds pictures which are shown in place of lazy ones.

    Whoever calls this has said what addresses are relative to (:func:`app.feeds.html.allow_list.bind`).
    """
    outside = tag_patterns.replace("noscript", markup, lambda _: "")
    pictures = [inner for _, inner in _IMG.findall(outside) if "data-" in inner.lower()]
    loaded = {address for inner in pictures for address in _addresses(tag_patterns.attributes(inner))}
    behind_sets = _behind_sets(markup) if loaded else set()

    def replacement(found: re.Match[str]) -> str:
        sources = [tag_patterns.attributes(inner).get("src", "") for _, inner in _IMG.findall(found[2])]
        copied = sources and all(judge("img", "src", source) in loaded for source in sources)
        # The picture as a whole is seldom one of the sizes in its set.
        copied = copied or (len(sources) == 1 and found.start() in behind_sets)
        return "" if copied and not text.flat(found[2]) else found[0]

    return tag_patterns.replace("noscript", markup, replacement) if loaded else markup


def _behind_sets(markup: str) -> set[int]:
    """Return where the copy would begin of each picture that is there for scripts in several sizes only."""
    ends = set()
    for found in _IMG.finditer(markup):
        if "srcset" not in found[2].lower():
            continue
        given = tag_patterns.attributes(found[2])
        only_sets = not given.keys() & set(LAZY) and given.keys() & set(LAZY_SETS)
        if only_sets and any(_addresses(given)) and (gap := _GAP.match(markup, found.end())):
            ends.add(gap.end())
    return ends


def _addresses(given: Mapping[str, str]) -> Iterator[str]:
    """Yield where the picture that will come out of these attributes is."""
    judged = ((name, judge("img", name, given[name])) for name in _JUDGED if name in given)
    picture = shown({name: value for name, value in judged if value is not None})
    if not is_pixel(picture):
        if "src" in picture:
            yield picture["src"]
        for candidate in picture.get("srcset", "").split(", "):
            yield candidate.partition(" ")[0]


def is_pixel(given: Mapping[str, str]) -> bool:
    """Return whether clean attributes are those of a picture that only counts who sees it (H13)."""
    return given.get("width") in ("0", "1") and given.get("height") in ("0", "1")


def shown(given: Mapping[str, str]) -> dict[str, str]:
    """Return clean attributes with what is there for scripts put in place."""
    picture = {name: value for name, value in given.items() if name not in _FOR_SCRIPTS}
    held = "src" in picture and _PLACEHOLDER.match(picture["src"])
    sets = [given[name] for name in LAZY_SETS if name in given]
    if sets:
        picture["srcset"] = sets[0]
        if held:
            del picture["src"]
    for address in (given[name] for name in LAZY if name in given):
        if held or "src" not in picture or _replaces(address, picture["src"]):
            picture["src"] = address
            break
    return picture


def _replaces(address: str, source: str) -> bool:
    """Return whether an address for scripts is more likely than a source to be the picture of both."""
    if _PICTURE.search(address):
        return True
    return address.split("/", 3)[:3] == source.split("/", 3)[:3] and not _PAGE.search(address)
