"""Pictures of other sites on pages and in answers to programs: the only place where their tags are written.

By default no site sees who reads: pages load its pictures from this server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape, unescape
from typing import cast

from flask import g
from flask_babel import gettext as _
from markupsafe import Markup

from app.errors import FEED_MESSAGES, N_, get_public_word
from app.models.discussion.moderation import ReportedItem
from app.models.feeds.parsed import Enclosure
from app.models.media.addresses import encode_bytes
from app.models.media.rewriting import (
    PictureTag,
    extend_pictures,
    list_pictures,
    rewrite_pictures,
    write_picture,
)
from app.models.media.shown import PictureState, ShownPicture
from app.models.media.signing import PictureSigner
from app.models.reading.entry import Entry
from app.models.reading.stream import EntryRow
from app.services.media.pictures import WantedPicture, list_wanted
from app.web.context import find_user, get_services, get_web
from app.web.view import i18n
from app.web.view.present import get_site, keep_http_url

#: A user's choices of how pictures are shown: through this server, from the sites, or not at all.
PROXY, DIRECT, NONE = "eventr", "site", "none"
#: A box of the picture's shape until it is there.
BLANK = "data:image/gif;base64,R0lGODlhAQABAIAAAP///wAAACH5BAEAAAAALAAAAAABAAEAAAICRAEAOw=="
#: The same without a shape of its own: the box has the one that width and height state.
SHAPELESS = "data:image/svg+xml,%3Csvg xmlns=%22http://www.w3.org/2000/svg%22/%3E"
#: Width and height of a box for a picture of which nothing is known: as wide as the text.
BOX = (960, 640)
#: How many times its width a picture is high that is read by scrolling, like a comic strip.
TALL = 2
#: Width in pixels from which a picture stands alone instead of in a line: a third of a usual line.
BLOCK = 220
#: Height in pixels from which a smaller picture is none of a line's signs or badges.
LINE = 64
#: Up to this size a square picture is a sign or an emoji, which needs no light ground.
SIGN = 32
#: In sanitized HTML: a link that contains nothing but pictures.
_INSIDE = r'[^<>"]*(?:"[^"]*"[^<>"]*)*'
_PICTURE_LINK = re.compile(rf"<a ({_INSIDE})>((?:\s*<(?:img|source|/?picture|br)\b{_INSIDE}>)+\s*)</a>")
_HREF, _ALT = re.compile(r'\bhref="([^"]*)"'), re.compile(r'\balt="\s*+[^"]')
#: Attributes of pictures that come from their sites.
_FROM_SITE = 'loading="lazy" decoding="async" referrerpolicy="no-referrer"'
_SIZES = "(max-width: 720px) 100vw, 720px"
_WIDTHS = (("w640", 640), ("w1280", 1280))
#: Why a picture isn't shown, besides the reasons that feeds have.
_REASONS = {
    "not_a_picture": N_("The address doesn't lead to a picture that Eventr can show."),
    "too_many_pixels": N_("The picture has too many pixels."),
    "broken_picture": N_("The picture is damaged."),
    "crashed": N_("The picture is damaged."),
}


def get_choice() -> str:
    """Return how pictures are shown to the person who asks; to strangers through this server, if it can."""
    person = find_user()
    choice = person.preferences.images if person else PROXY
    return DIRECT if choice == PROXY and not get_web().settings.is_picture_proxy else choice


def collect_rows(rows: Iterable[EntryRow], *, thumbs: bool) -> None:
    """Look up the pictures of all rows at once.

    Args:
        thumbs: the rows show their small pictures; otherwise the texts that they contain.
    """
    wanted = []
    for row in rows:
        if thumbs and row.image and get_choice() == PROXY:
            wanted.append(WantedPicture(row.image, row.url, row.feed_url, row.id))
        if row.shown_html:
            urls = [*list_pictures(row.shown_html), *(file.url for file in row.pictures)]
            # The still picture of a player.
            urls += [row.image] if row.image and row.enclosures else []
            wanted += [WantedPicture(url, row.url, row.feed_url, row.id) for url in urls]
    _prepare(wanted)


def collect_thumbs(entries: Iterable[Entry]) -> str:
    """Look up the small pictures of all entries at once; return ""."""
    if get_choice() == PROXY:
        _prepare(
            [WantedPicture(e.image, e.url, None, e.of.entry_id if e.of else e.id) for e in entries if e.image]
        )
    return ""


def collect_reported(things: Iterable[ReportedItem]) -> None:
    """Look up the small pictures of all reported shares at once."""
    if get_choice() == PROXY:
        _prepare([WantedPicture(one.image, one.url, None, one.entry_id) for one in things if one.image])


def collect_entry(entry: Entry, feed_url: str | None) -> str:
    """Look up all pictures of an entry at once: those in its text and those attached to it; return ""."""
    _prepare(list_wanted(entry, feed_url))
    return ""


def show_pictures(markup: str, page: str | None = None) -> str:
    """Return sanitized HTML with the pictures as this person has chosen to see them.

    Args:
        page: the page of the entry, whose origin is sent as Referer.
    """
    choice = get_choice()
    if "<img" not in markup:
        return markup
    if choice != NONE:
        markup = name_picture_links(markup)
    if choice != NONE:
        _prepare([WantedPicture(url, page) for url in list_pictures(markup)])
    if choice == DIRECT:
        return extend_pictures(markup, _describe)
    return rewrite_pictures(markup, _render_none if choice == NONE else _render)


def name_picture_links(markup: str) -> str:
    """Return sanitized HTML in which links that show only a picture without text have a name (WCAG 2.4.4)."""
    return _PICTURE_LINK.sub(_name_link, markup) if "</a>" in markup else markup


def _name_link(link: re.Match[str]) -> str:
    href = _HREF.search(link[1])
    if href is None or _ALT.search(link[2]):
        return link[0]
    site = get_site(unescape(href[1]))
    label = _("Link to %(site)s", site=site) if site else _("Picture")
    return f'<a aria-label="{escape(label)}" {link[1]}>{link[2]}</a>'


def show_picture(url: str, text: str, page: str | None = None) -> Markup:
    """Return a picture that is attached to an entry."""
    url = keep_http_url(url)
    tag = f'<img src="{escape(url)}" alt="{escape(text)}" {_FROM_SITE}>'
    return Markup(show_pictures(tag, page) if url else "")  # noqa: S704 — built from escaped parts only


def render_thumb(url: str | None, *, large: bool = False, ready: bool = False) -> str:
    """Return the picture of a row, small unless it leads a section; "" without one.

    :func:`collect_rows`, :func:`collect_thumbs` or :func:`collect_reported` has looked it up.

    Args:
        ready: for pages without scripts: no place for a picture that is still to be fetched.
    """
    choice, url = get_choice(), keep_http_url(url)
    if not url or choice == NONE:
        return ""
    small = "t416" if large else "t208"
    shape = 'alt="" width="104" height="72" loading="lazy" decoding="async"'
    if choice == DIRECT:
        return f'<img class="thumb" src="{escape(url)}" alt="" width="104" height="72" {_FROM_SITE}>'
    shown = _get_known().get(url)
    if shown is None or shown.state is PictureState.FAILED or (ready and shown.state is PictureState.PENDING):
        return ""
    if shown.state is PictureState.PENDING:
        return (
            f'<img class="thumb wait" src="{BLANK}" data-picture="{_name(shown)}"'
            f' data-size="{small}" data-script="{_get_script()}" {shape}>'
        )
    small, double = ("t416", "w640") if large and "t416" in shown.names else ("t208", "t416")
    sharp = f' srcset="{shown.build_path(double)} 2x"' if double in shown.names else ""
    return f'<img class="thumb" src="{shown.build_path(small)}"{sharp} {shape}>'


def show_thumb(url: str | None, *, ready: bool = False) -> Markup:
    """Return the picture of a row for a template; ``ready`` as for :func:`render_thumb`."""
    return Markup(render_thumb(url, ready=ready))  # noqa: S704 — built from escaped parts only


def render_poster(url: str | None, page: str | None = None) -> str:
    """Return the still picture of a player; "" without one, or if it isn't shown.

    :func:`collect_entry` has looked it up.
    """
    url = keep_http_url(url)
    if not url or (get_choice() == PROXY and url not in _get_known()):
        return ""
    tag = f'<a><img src="{escape(url)}" alt="" {_FROM_SITE}></a>'
    shown = (tag if get_choice() == DIRECT else show_pictures(tag, page))[len("<a>") : -len("</a>")]
    return shown if shown.startswith("<img ") else ""


# -- for programs
def sign_pictures(markup: str, page: str | None) -> str:
    """Return sanitized HTML for programs, whose pictures come from this server."""
    return _get_signer().sign_html(markup, page)


def sign_picture(url: str | None, page: str | None) -> str | None:
    """Return the address of a picture for programs; None without one."""
    return _get_signer().sign_url(url, page)


def sign_files(files: Sequence[Enclosure], page: str | None) -> list[Enclosure]:
    """Return an entry's files for programs, which load pictures without a click: those come from this server.

    Pictures whose address can't be signed are left out.
    """
    return _get_signer().sign_files(files, page)


def _get_signer() -> PictureSigner:
    if "picture_signer" not in g:
        g.picture_signer = get_services().pictures.create_signer(get_web().base_url)
    return cast(PictureSigner, g.picture_signer)


# -- pages
def _get_known() -> dict[str, ShownPicture]:
    if "pictures" not in g:
        g.pictures = {}
    return cast("dict[str, ShownPicture]", g.pictures)


def _prepare(wanted: Sequence[WantedPicture]) -> None:
    """Look up the pictures that this request hasn't looked up yet."""
    known = _get_known()
    new = {one.url: one for one in wanted if one.url not in known and _is_foreign(one.url)}
    if new and get_choice() == DIRECT and get_web().settings.is_picture_proxy:
        # Others see them through this server, so their sizes may be known.
        known.update(get_services().pictures.find_known(new))
    elif new and get_choice() == PROXY:
        person = find_user()
        found = get_services().pictures.prepare(
            list(new.values()), person.actor.user_id if person is not None else None
        )
        known.update(found)


def _is_foreign(url: str) -> bool:
    return not url.startswith(f"{get_web().base_url}/")


def _get_script() -> str:
    """Return the script that shows pictures as soon as they are there."""
    return get_web().assets.get_url("pictures.js")


def _name(shown: ShownPicture) -> str:
    return encode_bytes(shown.source)


def _render(tag: PictureTag) -> str:
    shown = _get_known().get(tag.url)
    if shown is None:
        return "" if tag.is_variant else _render_link(tag, _("Picture"))
    if tag.is_variant:
        return _render_variant(tag, shown)
    if shown.state is PictureState.FAILED:
        return _render_link(tag, describe_failure(shown.error))
    if shown.state is PictureState.PENDING:
        width, height = tag.size or BOX
        return write_picture(
            tag,
            {
                "class": f"wait {_classify(width, height) or ''}".strip(),
                "src": SHAPELESS,
                "data-picture": _name(shown),
                "data-stated": "1" if tag.size else None,
                "data-script": _get_script(),
                "width": width,
                "height": height,
                "decoding": "async",
            },
        )
    width, height = fit_box(tag, shown)
    return write_picture(
        tag,
        {
            "class": _classify(width, height),
            "src": shown.build_path("w640"),
            "srcset": build_set(shown),
            "sizes": _SIZES if build_set(shown) else None,
            "width": width,
            "height": height,
            "loading": "lazy",
            "decoding": "async",
            "data-full": None if tag.is_linked else get_largest(shown),
            "data-script": None if tag.is_linked else get_web().assets.get_url("lightbox.js"),
        },
    )


def _describe(tag: PictureTag) -> dict[str, str | int | None]:
    """Return the place and the size of a picture from its site; a script finds out what nobody knows."""
    shown = _get_known().get(tag.url)
    if tag.size:
        return {"class": _classify(*tag.size)}
    if shown and shown.width and shown.height and not tag.attributes.keys() & {"width", "height"}:
        size = shown.width, shown.height
        return {"class": _classify(*size), "width": size[0], "height": size[1]}
    return {"data-script": get_web().assets.get_url("sizes.js")}


def is_tall(width: int, height: int) -> bool:
    """Tell whether a picture keeps its width, however high it then is."""
    return height > TALL * width


def get_largest(shown: ShownPicture) -> str:
    """Return the address of a picture's largest size."""
    return shown.build_path("w1280" if "w1280" in shown.names else "w640")


def _render_variant(tag: PictureTag, shown: ShownPicture) -> str:
    if shown.state is not PictureState.READY:
        return ""
    paths = build_set(shown) or shown.build_path("w640")
    return f'<source srcset="{escape(paths)}" sizes="{_SIZES}" media="{escape(tag.attributes["media"])}">'


def _render_none(tag: PictureTag) -> str:
    return "" if tag.is_variant else _render_link(tag, _("Picture"))


def _render_link(tag: PictureTag, why: str) -> str:
    """Return a line in place of a picture, with a link to the picture unless it is in a link already."""
    text = escape(tag.attributes.get("alt", "") or get_site(tag.url))
    if not tag.is_linked:
        text = f'<a href="{escape(tag.url)}" target="_blank" rel="noopener noreferrer">{text}</a>'
    return f'<span class="no-picture">{escape(why)} {text}</span>'


def describe_failure(word: str | None) -> str:
    """Return why a picture isn't shown. Nobody learns which hosts are in this server's network (S13)."""
    word = word or "not_a_picture"
    if word in _REASONS:
        return str(_(_REASONS[word]))
    seen = get_public_word(word)
    is_known = seen in FEED_MESSAGES or seen.startswith("http_")
    return i18n.translate_feed_error(seen) if is_known else str(_("Picture"))


def _classify(width: int, height: int) -> str | None:
    """Return the classes of a picture by its size on the page."""
    names = [
        name
        for name, applies in (
            ("tall", is_tall(width, height)),
            ("block", width >= BLOCK),
            ("narrow", width < BLOCK and height > LINE),
            ("sign", width == height <= SIGN),
        )
        if applies
    ]
    return " ".join(names) or None


def build_set(shown: ShownPicture) -> str | None:
    """Return the sizes of a picture for ``srcset``; None if there is only one."""
    width = shown.width or 0
    found = [(name, min(width, limit)) for name, limit in _WIDTHS if name in shown.names]
    if width <= _WIDTHS[0][1] or len(found) < 2:
        return None
    return ", ".join(f"{shown.build_path(name)} {pixels}w" for name, pixels in found)


def fit_box(tag: PictureTag, shown: ShownPicture) -> tuple[int, int]:
    """Return the width and height to reserve: the picture's, or as much smaller as the HTML says."""
    width, height = shown.width or BOX[0], shown.height or BOX[1]
    stated = tag.size
    if stated is not None and stated[0] < width:
        return stated[0], max(1, round(stated[0] * height / width))
    return width, height
