"""Lazy images: pictures that a script of their page would load get the addresses that it would set."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from app.feeds.html import tag_patterns, text
from app.feeds.html.allow_list import LAZY, LAZY_SETS, filter_attribute

#: Elements that :func:`convert_amp_images` handles.
NAMES = frozenset(["amp-img", "amp-anim"])
_AMP = tag_patterns.compile_tag_pattern("/?amp-(?:img|anim)")
_IMG = tag_patterns.compile_tag_pattern("img")
_LOADED = tag_patterns.compile_tag_pattern("img|source")
#: Markup allowed between a picture and its copy.
_GAP = re.compile(r"\s*+(?:</picture\s*+>\s*+)?", re.IGNORECASE)
_FOR_SCRIPTS = frozenset([*LAZY, *LAZY_SETS])
_JUDGED = ("src", "srcset", "width", "height", *LAZY, *LAZY_SETS)
_PLACEHOLDER = re.compile(r"data:|.*(?:blank|spacer|placeholder|lazy|loading)", re.DOTALL)
_PICTURE = re.compile(r"\.(?:avif|bmp|gif|jfif|jpe?g|jxl|png|svg|webp)(?![A-Za-z0-9])", re.IGNORECASE)
_PAGE = re.compile(r"(?:/|\.x?html?)(?:[?#]|\Z)", re.IGNORECASE)


def convert_amp_images(markup: str) -> str:
    """Return the HTML with AMP pictures as <img>, without their placeholders and fallbacks."""
    return _AMP.sub(_from_amp, markup)


def _from_amp(found: re.Match[str]) -> str:
    if found[1].startswith("/") or tag_patterns.parse_attributes(found[2]).keys() & {
        "placeholder",
        "fallback",
    }:
        return ""
    return f"<img data-amp{found[2]}>"  # a script loads them, so they have copies like other lazy ones


def remove_noscript_copies(markup: str) -> str:
    """Return the HTML without each <noscript> that only repeats pictures shown as lazy images.

    The caller has set the base addresses (:func:`app.feeds.html.allow_list.bind`).
    """
    outside = tag_patterns.replace_elements("noscript", markup, lambda _: "")
    pictures = [inner for _, inner in _LOADED.findall(outside) if "data-" in inner.lower()]
    loaded = {address for inner in pictures for address in _addresses(tag_patterns.parse_attributes(inner))}
    behind_sets = _behind_sets(markup) if loaded else set()

    def remove_copy(match: re.Match[str]) -> str:
        sources = [tag_patterns.parse_attributes(inner).get("src", "") for _, inner in _IMG.findall(match[2])]
        copied = sources and all(filter_attribute("img", "src", source) in loaded for source in sources)
        # The full-size picture is seldom one of the sizes in its set.
        copied = copied or (len(sources) == 1 and match.start() in behind_sets)
        return "" if copied and not text.flatten_html(match[2]) else match[0]

    return tag_patterns.replace_elements("noscript", markup, remove_copy) if loaded else markup


def _behind_sets(markup: str) -> set[int]:
    """Return where a copy would begin, for each picture whose only lazy sources are sets of sizes."""
    ends = set()
    for found in _IMG.finditer(markup):
        if "srcset" not in found[2].lower():
            continue
        given = tag_patterns.parse_attributes(found[2])
        only_sets = not given.keys() & set(LAZY) and given.keys() & set(LAZY_SETS)
        if only_sets and any(_addresses(given)) and (gap := _GAP.match(markup, found.end())):
            ends.add(gap.end())
    return ends


def _addresses(given: Mapping[str, str]) -> Iterator[str]:
    """Yield the addresses of the picture that these attributes result in."""
    judged = ((name, filter_attribute("img", name, given[name])) for name in _JUDGED if name in given)
    picture = promote_lazy_sources({name: value for name, value in judged if value is not None})
    if not is_tracking_pixel(picture):
        if "src" in picture:
            yield picture["src"]
        for candidate in picture.get("srcset", "").split(", "):
            yield candidate.partition(" ")[0]


def is_tracking_pixel(attributes: Mapping[str, str]) -> bool:
    """Return whether clean attributes belong to a tracking pixel (H13)."""
    return attributes.get("width") in ("0", "1") and attributes.get("height") in ("0", "1")


def promote_lazy_sources(attributes: Mapping[str, str]) -> dict[str, str]:
    """Return clean attributes with the lazy sources moved to ``src`` and ``srcset``."""
    picture = {name: value for name, value in attributes.items() if name not in _FOR_SCRIPTS}
    held = "src" in picture and _PLACEHOLDER.match(picture["src"])
    sets = [attributes[name] for name in LAZY_SETS if name in attributes]
    if sets:
        picture["srcset"] = sets[0]
        if held:
            del picture["src"]
    for address in (attributes[name] for name in LAZY if name in attributes):
        if held or "src" not in picture or _replaces(address, picture["src"]):
            picture["src"] = address
            break
    return picture


def _replaces(address: str, source: str) -> bool:
    """Return whether a lazy address is more likely the picture than the source is."""
    if _PICTURE.search(address):
        return True
    return address.split("/", 3)[:3] == source.split("/", 3)[:3] and not _PAGE.search(address)
