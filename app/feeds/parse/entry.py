"""Entry elements: handlers for the children of an item or entry, dispatched by name.

RSS, RDF and Atom share one table: their elements differ by namespace, and feeds mix them freely. The
ranks decide which element wins when a feed states the same field twice.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TypeAlias

from lxml.etree import _Element

from app.feeds.parse import chain
from app.feeds.parse.draft import MOST_CHAPTERS, EntryDraft, is_absolute
from app.feeds.parse.markup import escape_text, get_text, keep_line_breaks, read_text_construct, read_xhtml
from app.feeds.parse.media import MEDIA, add_keywords
from app.feeds.parse.names import ATOM, RDF_ABOUT, RSS, THR_COUNT, XML_BASE, HandlerTable, canonicalise_tag
from app.models.feeds.link_schemes import has_link_scheme
from app.models.feeds.parsed import FileRole

Handler: TypeAlias = Callable[[EntryDraft, _Element], None]

#: Link relations that may be the entry's page when it has no alternate link, with their ranks.
_OTHER_PAGES = {"canonical": 4, "related": 3, "via": 3, "self": 2}


def read_entry(draft: EntryDraft, el: _Element, table: HandlerTable[Handler]) -> EntryDraft:
    """Fill a draft from an ``item`` or ``entry`` element."""
    about = el.get(RDF_ABOUT)
    if about:
        draft.offer_guid(3, about)
    for child in el:
        handler = table[child.tag]
        if handler is not None:
            handler(draft, child)
    return draft


def resolve_base(el: _Element, base: str, draft: EntryDraft) -> str:
    """Return the base address inside an element (XML Base)."""
    return (draft.ctx.resolve_url(base, el.get(XML_BASE)) or base) if draft.ctx.has_bases else base


# -- RSS


def _title(draft: EntryDraft, el: _Element) -> None:
    draft.offer_title(9, get_text(el))


def _link(draft: EntryDraft, el: _Element) -> None:
    base = resolve_base(el, draft.base, draft)
    draft.offer_link(9, el.text or el.get("href") or _same_document(base, draft), base)


def _same_document(base: str, draft: EntryDraft) -> str | None:
    """Return the address of an empty reference (RFC 3986 §4.4): the base, if the feed states one."""
    return base if base != draft.ctx.base else None


def _guid(draft: EntryDraft, el: _Element) -> None:
    draft.offer_guid(4, el.text)
    draft.permalink = (el.get("isPermaLink") or el.get("ispermalink") or "").strip().lower() == "true"


def _description(draft: EntryDraft, el: _Element) -> None:
    draft.offer_summary(9, keep_line_breaks(get_text(el)), resolve_base(el, draft.base, draft))


def _encoded(draft: EntryDraft, el: _Element) -> None:
    draft.offer_content(9, keep_line_breaks(get_text(el)), resolve_base(el, draft.base, draft))


def _loose_content(draft: EntryDraft, el: _Element) -> None:
    draft.offer_content(5, get_text(el))


def _xhtml_body(draft: EntryDraft, el: _Element) -> None:
    # Without elements inside, it is escaped HTML under the wrong name.
    draft.offer_content(7, read_xhtml(el) if len(el) else el.text or "", resolve_base(el, draft.base, draft))


def _body(draft: EntryDraft, el: _Element) -> None:
    draft.offer_content(7, keep_line_breaks(get_text(el)), resolve_base(el, draft.base, draft))


def _author(draft: EntryDraft, el: _Element) -> None:
    if len(el):
        _atom_author(draft, el)
    else:
        draft.offer_author(5, el.text)


def _creator(draft: EntryDraft, el: _Element) -> None:
    draft.offer_author(6, el.text or find_person_name(el))


def _itunes_author(draft: EntryDraft, el: _Element) -> None:
    draft.offer_author(3, el.text)


def _category(draft: EntryDraft, el: _Element) -> None:
    draft.add_category(el.text or el.get("text") or el.get("label") or el.get("term"))


def _itunes_duration(draft: EntryDraft, el: _Element) -> None:
    draft.duration = draft.duration or el.text


def _itunes_category(draft: EntryDraft, el: _Element) -> None:
    draft.add_category(el.get("text"))
    for child in el:
        draft.add_category(child.get("text"))


def _enclosure(draft: EntryDraft, el: _Element) -> None:
    draft.add_enclosure(el.get("url") or el.get("href") or el.text, el.get("type"), el.get("length"))


def _alternate_files(draft: EntryDraft, el: _Element) -> None:
    for child in el:
        # Sources in other networks, such as ipfs:, are copies of the same file.
        if canonicalise_tag(child.tag, RSS) == "podcast:source" and not has_link_scheme(
            child.get("uri") or ""
        ):
            draft.add_enclosure(
                child.get("uri"),
                child.get("contentType") or el.get("type"),
                el.get("length"),
                role=FileRole.ALTERNATE,
                name=el.get("title"),
            )


def _transcript(draft: EntryDraft, el: _Element) -> None:
    draft.add_enclosure(el.get("url"), el.get("type"), None, role=FileRole.TRANSCRIPT)


def _chapters(draft: EntryDraft, el: _Element) -> None:
    draft.add_enclosure(el.get("url"), el.get("type"), None, role=FileRole.CHAPTERS)


def _simple_chapters(draft: EntryDraft, el: _Element) -> None:
    for child in itertools.islice(el, MOST_CHAPTERS):
        draft.add_chapter(child.get("start"), child.get("title"))


def _comments(draft: EntryDraft, el: _Element) -> None:
    if draft.reply_page is None:
        draft.reply_page = el.text


def _comment_feed(draft: EntryDraft, el: _Element) -> None:
    if draft.reply_feed is None:
        draft.reply_feed = el.text


def _comment_count(draft: EntryDraft, el: _Element) -> None:
    draft.reply_count = el.text


def _offer_replies(draft: EntryDraft, url: str | None, el: _Element) -> None:
    """Read an Atom link to the comments (RFC 4685 §4)."""
    if (el.get("type") or "text/html").partition(";")[0].strip().endswith("html"):
        draft.reply_page = draft.reply_page or url
    else:
        draft.reply_feed = draft.reply_feed or url
    draft.reply_count = draft.reply_count or el.get(THR_COUNT)


def _image(draft: EntryDraft, el: _Element) -> None:
    if len(el):
        for child in el:
            if canonicalise_tag(child.tag, RSS) == "url":
                draft.offer_image(40, child.text)
    else:
        draft.offer_image(40, el.get("href") or el.get("url") or el.text)


def _pub_date(draft: EntryDraft, el: _Element) -> None:
    draft.offer_published(9, _moment(el))


def _dc_date(draft: EntryDraft, el: _Element) -> None:
    draft.offer_published(7, _moment(el))


def _created(draft: EntryDraft, el: _Element) -> None:
    draft.offer_published(5, _moment(el))


def _updated(draft: EntryDraft, el: _Element) -> None:
    draft.offer_updated(9, _moment(el))


def _moment(el: _Element) -> str | None:
    # Drupal wraps the readable date in an HTML <time> element.
    if len(el) and (time := next(el.iter("{*}time"), None)) is not None:
        return time.get("datetime") or time.text
    return el.text


def _dc_title(draft: EntryDraft, el: _Element) -> None:
    draft.offer_title(7, get_text(el))


def _itunes_title(draft: EntryDraft, el: _Element) -> None:
    draft.offer_title(5, get_text(el))


def _itunes_summary(draft: EntryDraft, el: _Element) -> None:
    draft.offer_summary(6, keep_line_breaks(get_text(el)))


def _itunes_subtitle(draft: EntryDraft, el: _Element) -> None:
    draft.offer_summary(3, get_text(el))


def _dc_description(draft: EntryDraft, el: _Element) -> None:
    draft.offer_summary(5, get_text(el))


def _dc_identifier(draft: EntryDraft, el: _Element) -> None:
    draft.offer_guid(1, el.text)


def _original_link(draft: EntryDraft, el: _Element) -> None:
    draft.original_link = el.text


def _original_file(draft: EntryDraft, el: _Element) -> None:
    """Replace the last enclosure, whose address FeedBurner replaced by its own."""
    address = (el.text or "").strip()
    if not (is_absolute(address) or address.startswith("/")):
        return
    if draft.enclosures:
        _, file = draft.enclosures.popitem()
        draft.add_enclosure(el.text, file.type, file.length, file.duration)
    else:
        draft.add_enclosure(el.text, None, None)


# -- Atom


def _atom_id(draft: EntryDraft, el: _Element) -> None:
    draft.offer_guid(5, el.text)


def _atom_title(draft: EntryDraft, el: _Element) -> None:
    text, is_html = read_text_construct(el)
    draft.offer_title(8, text, not is_html)


def _atom_link(draft: EntryDraft, el: _Element) -> None:
    href = el.get("href")
    if href is None:
        draft.offer_link(1, el.text)
        return
    rel = (el.get("rel") or "alternate").strip().lower().rpartition("/")[2]
    base = resolve_base(el, draft.base, draft)
    href = href or _same_document(base, draft)
    if rel == "alternate":
        kind = el.get("type") or "text/html"
        draft.offer_link(8 if kind.startswith("text/html") else 7 if "html" in kind else 6, href, base)
    elif rel == "enclosure":
        draft.add_enclosure(draft.ctx.resolve_url(base, href) or href, el.get("type"), el.get("length"))
    elif rel == "replies":
        _offer_replies(draft, draft.ctx.resolve_url(base, href), el)
    elif rel in _OTHER_PAGES:
        draft.offer_link(_OTHER_PAGES[rel], href, base)


def _atom_content(draft: EntryDraft, el: _Element) -> None:
    base = resolve_base(el, draft.base, draft)
    if el.get("src"):
        draft.offer_link(4, el.get("src"), base)
        return
    text, is_html = read_text_construct(el)
    draft.offer_content(8 if is_html else 6, text if is_html else escape_text(text), base)


def _atom_summary(draft: EntryDraft, el: _Element) -> None:
    text, is_html = read_text_construct(el)
    draft.offer_summary(8, text if is_html else escape_text(text), resolve_base(el, draft.base, draft))


def _atom_author(draft: EntryDraft, el: _Element) -> None:
    draft.offer_author(7, find_person_name(el))


def _atom_category(draft: EntryDraft, el: _Element) -> None:
    draft.add_category(el.get("label") or el.get("term") or el.text)


def _atom_source(draft: EntryDraft, el: _Element) -> None:
    for child in el:
        if canonicalise_tag(child.tag, ATOM) == "atom:author":
            draft.offer_author(1, find_person_name(child))


def find_person_name(el: _Element) -> str | None:
    """Return the name (else the e-mail address) of an Atom person construct (RFC 4287 §3.2)."""
    best = None
    for child in el.iterdescendants():
        tag = child.tag
        if tag.endswith("name") and (text := child.text) and not text.isspace():
            return text
        if tag.endswith("email"):
            best = child.text
    return best or el.text


HANDLERS: dict[str, Handler] = MEDIA | {
    "title": _title,
    "link": _link,
    "guid": _guid,
    "id": _guid,
    "description": _description,
    "summary": _description,
    "content": _loose_content,
    "fullitem": _loose_content,
    "fulltext": _loose_content,
    "full-text": _loose_content,
    "yandex:full-text": _loose_content,
    "body": _body,
    "content:encoded": _encoded,
    "xhtml:body": _xhtml_body,
    "xhtml:div": _xhtml_body,
    "author": _author,
    "category": _category,
    "enclosure": _enclosure,
    "image": _image,
    "pubdate": _pub_date,
    "date": _created,
    "published": _created,
    "updated": _updated,
    "issued": _created,
    "created": _created,
    "modified": _updated,
    "dc:title": _dc_title,
    "dc:creator": _creator,
    "dc:author": _creator,
    "dc:date": _dc_date,
    "dc:description": _dc_description,
    "dc:subject": _category,
    "dc:identifier": _dc_identifier,
    "dcterms:created": _created,
    "dcterms:issued": _created,
    "dcterms:modified": _updated,
    "dcterms:abstract": _itunes_subtitle,
    "prism:publicationdate": _created,
    "itunes:title": _itunes_title,
    "itunes:author": _itunes_author,
    "itunes:summary": _itunes_summary,
    "itunes:subtitle": _itunes_subtitle,
    "itunes:image": _image,
    "itunes:duration": _itunes_duration,
    "itunes:keywords": add_keywords,
    "itunes:category": _itunes_category,
    "ev:chain": chain.read_xml,
    "comments": _comments,
    "atom:comments": _comments,
    "wfw:commentrss": _comment_feed,
    "slash:comments": _comment_count,
    "thr:total": _comment_count,
    "podcast:alternateenclosure": _alternate_files,
    "podcast:transcript": _transcript,
    "podcast:chapters": _chapters,
    "psc:chapters": _simple_chapters,
    "googleplay:author": _itunes_author,
    "googleplay:description": _itunes_subtitle,
    "googleplay:image": _image,
    "feedburner:origlink": _original_link,
    "feedburner:origenclosurelink": _original_file,
    "atom:id": _atom_id,
    "atom:title": _atom_title,
    "atom:link": _atom_link,
    "atom:content": _atom_content,
    "atom:body": _body,
    "atom:summary": _atom_summary,
    "atom:author": _atom_author,
    "atom:category": _atom_category,
    "atom:enclosure": _enclosure,
    "atom:source": _atom_source,
    "atom:published": _pub_date,
    "atom:issued": _dc_date,
    "atom:created": _created,
    "atom:updated": _updated,
    "atom:modified": _updated,
    "atom:pubdate": _dc_date,
    "atom:date": _created,
}
