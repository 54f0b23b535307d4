"""Texts of notifications, for the page and for push messages."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Protocol
from urllib.parse import quote

from app.models.discussion.comments import NotificationKind, NotificationRow, PersonSummary
from app.models.notifications.push import TEST, Message
from app.models.reading.stream import StreamKind, StreamRef

#: Longest title in a push message, in characters: lines on devices are short.
TITLE_MAX = 120


class Translations(Protocol):
    """A gettext catalog."""

    def gettext(self, message: str) -> str: ...
    def ngettext(self, msgid1: str, msgid2: str, num: int) -> str: ...


def format_sentence(note: NotificationRow, translations: Translations, what: str = "") -> str:
    """Return the sentence of a notification; not for failing feeds.

    Args:
        what: stands for what it is about; empty: what :func:`format_subject` returns.
    """
    said = note.kind in (NotificationKind.COMMENT, NotificationKind.REPLY)
    who = _who(note.faces, len(note.faces) if said else note.count, translations)
    return _SENTENCES[note.kind](note, who, what or format_subject(note, translations), translations)


def format_subject(note: NotificationRow, translations: Translations) -> str:
    """Return what a notification is about: the title of an entry in quotes, or words for one without."""
    return _quote(note.title, translations) if note.title else translations.gettext("a post")


def build_path(note: NotificationRow) -> str:
    """Return the path that a notification links to; empty: no link."""
    if note.kind is NotificationKind.FEED:
        return f"/feeds/{note.subject}"
    if note.kind is NotificationKind.ENTRIES:
        return f"/read/feed/{note.subject}"
    if note.kind is NotificationKind.SEARCH:
        return f"/read/{StreamRef(StreamKind.SEARCH, query=note.detail)}"
    if note.kind is NotificationKind.FOUND:
        return f"/add?address={quote(note.title)}"
    if note.kind is NotificationKind.IMPORT:
        return f"/imports/{note.subject}"
    if note.kind is NotificationKind.EXPORT:
        return "/settings/account#export"
    if note.kind is NotificationKind.RESHARE:
        return f"/shares/{note.target}/comments"
    if note.kind.is_about_share:
        at = (
            f"?at={note.target}#c{note.target}"
            if note.target and note.kind is not NotificationKind.LIKE
            else ""
        )
        return f"/shares/{note.share_id}/comments{at}"
    return f"/@{quote(note.faces[0].handle)}" if note.faces[0].page else ""


def build_message(note: NotificationRow, language: str) -> Message:
    """Return the push message of a notification, with the same text as the page."""
    from app.runtime import translations  # late: workers that send no pushes need no catalogs

    words = translations.load_translations(language)
    if len(note.title) > TITLE_MAX:
        note = dataclasses.replace(note, title=note.title[: TITLE_MAX - 1].rstrip() + "…")
    return Message(
        title=_TITLES[note.kind](words),
        body=format_sentence(note, words),
        url=build_path(note) or "/notifications",
        tag=note.ref,
        lang=language,
        dir=str(translations.get_locale(language).text_direction),
    )


def name_saved_pages(language: str) -> str:
    """Return the name of a feed of saved pages, for code outside requests."""
    from app.runtime import translations

    return translations.load_translations(language).gettext("Saved pages")


def build_test_message(language: str) -> Message:
    """Return the push message that tests whether a device gets messages."""
    from app.runtime import translations

    words = translations.load_translations(language)
    return Message(
        title="Eventr",
        body=words.gettext("Notifications work on this device."),
        url="/settings/notifications",
        tag=TEST,
        lang=language,
        dir=str(translations.get_locale(language).text_direction),
        always=True,
    )


_TITLES: Mapping[NotificationKind, Callable[[Translations], str]] = {
    NotificationKind.FOLLOWER: lambda words: words.gettext("New follower"),
    NotificationKind.REQUEST: lambda words: words.gettext("New follow request"),
    NotificationKind.RESHARE: lambda words: words.gettext("New re-share"),
    NotificationKind.LIKE: lambda words: words.gettext("New like"),
    NotificationKind.COMMENT: lambda words: words.gettext("New comment"),
    NotificationKind.REPLY: lambda words: words.gettext("New reply"),
    NotificationKind.MENTION: lambda words: words.gettext("New mention"),
    NotificationKind.IMPORT: lambda words: words.gettext("Import finished"),
    NotificationKind.EXPORT: lambda words: words.gettext("Export ready"),
    NotificationKind.ENTRIES: lambda words: words.gettext("New entries"),
    NotificationKind.SEARCH: lambda words: words.gettext("New search results"),
    NotificationKind.FOUND: lambda words: words.gettext("Feed found"),
}


def _follower(note: NotificationRow, who: str, what: str, words: Translations) -> str:
    return words.ngettext("%(who)s started following you", "%(who)s started following you", note.count) % {
        "who": who
    }


def _request(note: NotificationRow, who: str, what: str, words: Translations) -> str:
    found = words.ngettext("%(who)s wants to follow you", "%(who)s want to follow you", note.count)
    return found % {"who": who}


def _reshare(note: NotificationRow, who: str, what: str, words: Translations) -> str:
    found = words.ngettext("%(who)s re-shared %(what)s", "%(who)s re-shared %(what)s", note.count)
    return found % {"who": who, "what": what}


def _like(note: NotificationRow, who: str, what: str, words: Translations) -> str:
    found = words.ngettext("%(who)s liked %(what)s", "%(who)s liked %(what)s", note.count)
    return found % {"who": who, "what": what}


def _comment(note: NotificationRow, who: str, what: str, words: Translations) -> str:
    found = words.ngettext(
        "%(who)s commented on %(what)s",
        "%(who)s posted %(num)s comments on %(what)s",
        note.count,
    )
    return found % {"who": who, "what": what, "num": note.count}


def _reply(note: NotificationRow, who: str, what: str, words: Translations) -> str:
    found = words.ngettext(
        "%(who)s replied to your comment on %(what)s",
        "%(who)s posted %(num)s replies to your comment on %(what)s",
        note.count,
    )
    return found % {"who": who, "what": what, "num": note.count}


def _mention(note: NotificationRow, who: str, what: str, words: Translations) -> str:
    return words.gettext("%(who)s mentioned you in %(what)s") % {"who": who, "what": what}


def _found(note: NotificationRow, who: str, what: str, words: Translations) -> str:
    return words.gettext("Eventr found a feed of %(site)s") % {"site": note.title}


def _import(note: NotificationRow, who: str, what: str, words: Translations) -> str:
    if not note.title:
        return words.gettext("Your import is finished")  # it has been deleted, or its file had no name
    return words.gettext("Your import of %(what)s is finished") % {"what": what}


def _export(note: NotificationRow, who: str, what: str, words: Translations) -> str:
    return words.gettext("Your export is ready")


def _entries(note: NotificationRow, who: str, what: str, words: Translations) -> str:
    found = words.ngettext("%(num)s new entry in %(what)s", "%(num)s new entries in %(what)s", note.count)
    return found % {"num": note.count, "what": what}


def _search(note: NotificationRow, who: str, what: str, words: Translations) -> str:
    found = words.ngettext(
        "%(num)s new result of your search %(what)s",
        "%(num)s new results of your search %(what)s",
        note.count,
    )
    return found % {"num": note.count, "what": what}


_SENTENCES: Mapping[NotificationKind, Callable[[NotificationRow, str, str, Translations], str]] = {
    NotificationKind.FOLLOWER: _follower,
    NotificationKind.REQUEST: _request,
    NotificationKind.RESHARE: _reshare,
    NotificationKind.LIKE: _like,
    NotificationKind.COMMENT: _comment,
    NotificationKind.REPLY: _reply,
    NotificationKind.MENTION: _mention,
    NotificationKind.IMPORT: _import,
    NotificationKind.EXPORT: _export,
    NotificationKind.ENTRIES: _entries,
    NotificationKind.SEARCH: _search,
    NotificationKind.FOUND: _found,
}


def _who(faces: tuple[PersonSummary, ...], count: int, words: Translations) -> str:
    """Return people for a sentence: two by name, the others as a number."""
    names = [_apart(face.name) for face in faces[:2]]
    if count <= 1 or len(names) < 2:
        return names[0] if names else ""
    if count == 2:
        return words.gettext("%(one)s and %(two)s") % {"one": names[0], "two": names[1]}
    found = words.ngettext(
        "%(one)s, %(two)s and %(num)s other",
        "%(one)s, %(two)s and %(num)s others",
        count - 2,
    )
    return found % {"one": names[0], "two": names[1], "num": count - 2}


def _quote(title: str, words: Translations) -> str:
    return words.gettext("“%(title)s”") % {"title": _apart(title)}


def _apart(name: str) -> str:
    """Isolate a name or title, so that its text direction doesn't affect the sentence."""
    return f"\u2068{name}\u2069"
