"""HTML sanitizer: make entry HTML safe, with an allow-list over a browser-grade parser (nh3, html5ever).

 prepare (plain text work: frames and players to links, drawings to pictures, formulas set aside)
 → shape check (X02)
 → nh3 with one filter per attribute (resolves and checks addresses in the same pass)
 → finish (links and images get their fixed attributes, tracking pixels are removed)
 → formulas put back

Odd markup may fool the steps before nh3 without harm, because nh3 processes their result. The steps after
it rely on one property of nh3's output, which a test guards. There, ``<`` only ever starts a tag; nh3
escapes ``<`` in text and in attribute values.
"""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Callable

import nh3

from app.feeds.fetch.address_policy import Policy
from app.feeds.html import (
    anchors,
    code,
    embeds,
    formulas,
    hidden,
    lazy_images,
    media,
    prescan,
    replacements,
    tag_patterns,
    text,
)
from app.feeds.html.allow_list import ATTRIBUTES, DROPPED, TAGS, UNMET, bind, filter_attribute, get_page
from app.feeds.html.patterns import build_possessive
from app.models.feeds.link_schemes import LINK_SCHEMES

#: Raised whenever the same input may give other output, so that stored entries are sanitized again (H03).
SANITIZER_VERSION = 5

MAX_HTML = 1 << 20
_SETTLE = 8

_NOSCRIPT = re.compile(r"</?noscript(?=[\s/>])[^<>]*>", re.IGNORECASE)
_PRE = re.compile(r"<pre>\n+")
_IMAGE = re.compile(r"<img( [^>]*)?>")
_BEACON = re.compile(
    r"https?://(?:feeds\.feedburner\.com/~(?:r|ff)/|feeds\.wordpress\.com/1\.0/|stats\.wordpress\.com/"
    r"|pixel\.wp\.com/|pixel\.quantserve\.com/|(?:s)?b\.scorecardresearch\.com/|da\.feedsportal\.com/"
    r"|www\.google-analytics\.com/|(?:ad|googleads\.g)\.doubleclick\.net/|[^/\"]+/(?:wp-json/)?pixel\.gif\?)"
)
_SOURCE = re.compile(r"<source( [^>]*)>")
_SHOWN = re.compile(r'<img [^>]*(?<= )(?:src|srcset|data-[a-z-]+)="')
#: A link that shows nothing; its group is what stays: white space between words.
_EMPTY_LINK = re.compile(
    r"<a ([^<>]*)>(?=[\s<])(" + build_possessive(r"\s|</?(?:b|em|i|small|span|strong|u)>") + ")</a>"
)
_ID = re.compile(r'(?<!\S)id="[^"]*"')
_BARE_IMAGE = re.compile(r"<img(?=[ >])")

_LINK_ATTRIBUTES = 'rel="noopener noreferrer nofollow ugc" target="_blank" referrerpolicy="no-referrer"'
_IMAGE_ATTRIBUTES = 'loading="lazy" decoding="async" referrerpolicy="no-referrer"'


def sanitize(
    markup: str, base_url: str, *, own_origin: str | None = None, policy: Policy | None = None
) -> str:
    """Return entry HTML that is safe inside our pages. Never raises; the time is linear in the size.

    Args:
        markup: HTML as published.
        base_url: absolute address against which relative ones are resolved.
        own_origin: our own ``scheme://host[:port]``; media from there are dropped (H05).
        policy: which addresses media may have (:mod:`app.feeds.media_targets`); None for the defaults.

    Returns:
        The safe HTML; the plain text in one paragraph if parsing would cost too much.
    """
    if len(markup) > MAX_HTML:
        markup = text.cut_html(markup, MAX_HTML)
    if not markup.isascii():
        markup = _encodable(markup)
    if "<" not in markup and "&" not in markup and ">" not in markup:
        return markup.replace("\0", "")
    try:
        return _clean(markup, functools.partial(bind, base_url, own_origin, policy))
    except BaseException as e:
        # A panic inside nh3 arrives as a BaseException of a class that can't be imported.
        if type(e).__name__ not in ("PanicException", "RecursionError", "ValueError"):
            raise
        return _as_text(markup)


def _clean(markup: str, bind_entry: Callable[[frozenset[str]], None]) -> str:
    bind_entry(frozenset())
    found: list[str] = []
    markup = _prepare(markup, found)
    if prescan.is_hostile(markup):
        return _as_text(markup)
    targets = anchors.find_targets(markup, get_page()) if "#" in markup else frozenset()
    # Most entries need none of this, and each attribute costs a call.
    needs_all = bool(found or targets or hidden.is_needed(markup) or code.is_named(markup))
    clean = functools.partial(_pass, bind_entry, targets, _FULL_CLEANER if needs_all else _CLEANER)
    result = clean(markup)
    # Removing elements can leave a tree that parses differently once serialized: repeat until it is stable.
    for _ in range(_SETTLE):
        if not prescan.may_reparse_differently(result):
            break
        again = clean(result)
        if again == result:
            break
        result = again
    else:
        return _as_text(result)
    return formulas.insert_formulas(result, found) if found else result


def _pass(
    bind_entry: Callable[[frozenset[str]], None], targets: frozenset[str], cleaner: nh3.Cleaner, markup: str
) -> str:
    bind_entry(targets)  # each pass counts the length of addresses anew
    clean = cleaner.clean(markup)
    if cleaner is _FULL_CLEANER:
        clean = hidden.remove_hidden(clean)
        if "<pre" in clean or ' class="' in clean:
            clean = code.settle_languages(clean)
    return _finish(clean, anchored=bool(targets))


def _encodable(markup: str) -> str:
    try:
        markup.encode("utf-8")
    except UnicodeEncodeError:
        return markup.encode("utf-8", "replace").decode("utf-8")
    return markup


def _as_text(markup: str) -> str:
    words = text.flatten_html(markup)
    return f"<p>{html.escape(words, quote=False)}</p>" if words else ""


# -- before nh3

_DIVISIONS = frozenset(["center", "main", "nav", "fieldset", "form", "dir", "menu", "hgroup", "layer"])
_NAMES = sorted(
    {"noscript"} | lazy_images.NAMES | replacements.NAMES | embeds.NAMES | media.NAMES | _DIVISIONS
)
#: Most tags have one or two letters: checking three letters first skips the long list.
_PREPARED = re.compile(
    rf"<((?=[acdefhilmnopstvx][a-z]{{2}})(?:{'|'.join(_NAMES)})|{embeds.CUSTOM_NAME})[\s/>]", re.IGNORECASE
)
_RENAMED = re.compile(rf"<(/?)(?:{'|'.join(sorted(_DIVISIONS))})(?=[\s/>])([^<>]*>)", re.IGNORECASE)


def _prepare(markup: str, found: list[str]) -> str:
    """Return the HTML for nh3; the formulas found are added to ``found``."""
    names = {name.lower() for name in _PREPARED.findall(markup)}
    if not names:
        return markup
    # First, because markup inside these elements isn't markup.
    markup = replacements.strip_invisible(markup)
    if names & lazy_images.NAMES:
        markup = lazy_images.convert_amp_images(markup)
    if "noscript" in names:
        markup = lazy_images.remove_noscript_copies(replacements.remove_pleas("noscript", markup))
        markup = _NOSCRIPT.sub("", markup)
    if "canvas" in names:
        markup = replacements.remove_pleas("canvas", markup)
    if "math" in names:
        markup = replacements.replace_math(markup, found)
    if "katex-html" in markup:
        markup = hidden.show_only_copies(markup)
    if names & {"dialog", "input"}:
        markup = replacements.replace_controls(markup)
    markup = _replace_players(markup, names)
    return _RENAMED.sub(r"<\1div\2", markup) if names & _DIVISIONS else markup


def _build_cleaner(tags: frozenset[str], attributes: dict[str, set[str]]) -> nh3.Cleaner:
    return nh3.Cleaner(
        tags=set(tags),
        clean_content_tags=set(DROPPED),
        attributes=attributes,
        attribute_filter=filter_attribute,
        link_rel=None,
        # filter_attribute() allows data: only for images, and the schemes of other apps only for links.
        url_schemes={"http", "https", "data", *LINK_SCHEMES},
    )


def _replace_players(markup: str, names: set[str]) -> str:
    seen: set[str] = set()
    if any("-" in name for name in names):
        markup = embeds.replace_custom_players(markup, seen)
    if names & embeds.NAMES:
        markup = embeds.replace_embeds_with_links(markup, seen)
    return media.replace_players_with_links(markup) if names & media.NAMES else markup


_CLEANER = _build_cleaner(TAGS, ATTRIBUTES)
#: For entries with hidden content, anchors, formulas or code. Of what it lets pass in addition, only anchors
#: and the languages of code stay.
_FULL_CLEANER = _build_cleaner(
    TAGS | {formulas.PLACEHOLDER},
    {
        **ATTRIBUTES,
        "*": ATTRIBUTES["*"] | hidden.NAMES | {"id", "name"},
        formulas.PLACEHOLDER: {"n"},
        **{name: {"class"} for name in code.NAMED},
    },
)


# -- after nh3


def _finish(markup: str, *, anchored: bool) -> str:
    if "\r" in markup:
        markup = markup.replace("\r\n", "\n").replace("\r", "\n")  # parse references to CR as a parser would
    if "<pre>\n" in markup:
        markup = _PRE.sub("<pre>", markup)  # a parser drops this line break, but only the first one
    if "<source" in markup:
        if " data-" in markup or f' media="{UNMET}"' in markup:
            markup = _SOURCE.sub(_source, markup)
        markup = tag_patterns.replace_elements("picture", markup, _picture)
    if "<img" in markup:
        markup = _IMAGE.sub(_image, markup)
    if "></a>" in markup or " </a>" in markup or "\n</a>" in markup:
        markup = _EMPTY_LINK.sub(_empty_link, markup)
    if anchored:
        return anchors.settle_anchors(markup, get_page(), _LINK_ATTRIBUTES)
    if "<a " in markup:
        markup = markup.replace("<a ", f"<a {_LINK_ATTRIBUTES} ")
    return markup


def _empty_link(match: re.Match[str]) -> str:
    """Return what stays of a link without text or picture: its id, which other links may lead to."""
    if "href=" not in match[1]:
        return match[0]
    name = _ID.search(match[1])
    return (f"<a {name[0]}></a>" if name else "") + re.sub("<[^<>]*>", "", match[2])


def _source(match: re.Match[str]) -> str:
    given = lazy_images.promote_lazy_sources(tag_patterns.parse_clean_attributes(match[1]))
    return "" if given.get("media") == UNMET else f"<source{tag_patterns.write_attributes(given)}>"


def _picture(match: re.Match[str]) -> str:
    """Return a <picture> with a usable <img>, which all browsers need to show its sources."""
    if _SHOWN.search(match[2]):
        return match[0]
    sets = [
        tag_patterns.parse_clean_attributes(inner).get("srcset", "") for inner in _SOURCE.findall(match[2])
    ]
    address = next((given.split(" ", 1)[0].rstrip(",") for given in reversed(sets) if given), None)
    if address is None:
        return match[0]
    inside, known = _BARE_IMAGE.subn(lambda _: f'<img src="{address}"', match[2], count=1)
    return f"<picture{match[1]}>{inside}" + ("" if known else f'<img src="{address}">') + "</picture>"


def _image(match: re.Match[str]) -> str:
    inner = match[1] or ""
    given = tag_patterns.parse_clean_attributes(inner)
    if " data-" in inner:
        given = lazy_images.promote_lazy_sources(given)
        inner = tag_patterns.write_attributes(given)
    if lazy_images.is_tracking_pixel(given):
        return ""
    if "src" not in given and "srcset" not in given:
        # Formulas and symbols are often ``data:`` pictures.
        return given.get("alt", "").replace("&quot;", '"').strip()
    if _BEACON.match(given.get("src", "")):
        return ""
    # Without one, screen readers read the address aloud.
    silent = "" if "alt" in given else ' alt=""'
    return f"<img {_IMAGE_ATTRIBUTES}{inner}{silent}>"
