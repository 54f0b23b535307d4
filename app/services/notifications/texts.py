"""What somebody is told, in words: for the page and, where no page is open, for his devices."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Protocol
from urllib.parse import quote

from app.models.discussion.comments import Face, Note, NoteKind
from app.models.notifications.push import TEST, Message

#: Characters of a title in a message to a device: lines there are short.
TITLE_MAX = 120


class Words(Protocol):
    """A catalogue of gettext."""

    def gettext(self, message: str) -> str: ...
    def ngettext(self, msgid1: str, msgid2: str, num: int) -> str: ...


def sentence(note: Note, words: Words) -> str:
    """Return a row in words; not of feeds that fail."""
    said = note.kind in (NoteKind.COMMENT, NoteKind.REPLY)
    who = _who(note.faces, len(note.faces) if said else note.count, words)
    what = _apart(note.title) if note.title else words.gettext("a post")
    return _SENTENCES[note.kind](note, who, what, words)


def goal(note: Note) -> str:
    """Return the path that a row leads to, empty: nowhere."""
    if note.kind is NoteKind.FEED:
        return f"/feeds/{note.subject}"
    if note.kind is NoteKind.IMPORT:
        return f"/imports/{note.subject}"
    if note.kind is NoteKind.EXPORT:
        return "/settings/account#export"
    if note.kind is NoteKind.RESHARE:
        return f"/shares/{note.target}/comments"
    if note.kind.of_share:
        at = f"?at={note.target}#c{note.target}" if note.target and note.kind is not NoteKind.LIKE else ""
        return f"/shares/{note.share_id}/comments{at}"
    return f"/@{quote(note.faces[0].handle)}" if note.faces[0].page else ""


def message(note: Note, language: str) -> Message:
    """Return a row as a device shows it: what the page says of it, and nothing more."""
    from app.runtime import translations  # late: workers that tell nobody need no catalogues

    words = translations.translations(language)
    if len(note.title) > TITLE_MAX:
        note = dataclasses.replace(note, title=note.title[: TITLE_MAX - 1].rstrip() + "…")
    return Message(
        title=_TITLES[note.kind](words),
        body=sentence(note, words),
        url=goal(note) or "/notifications",
        tag=note.ref,
        lang=language,
        dir=str(translations.locale(language).text_direction),
    )


def trial(language: str) -> Message:
    """Return what shows that something comes."""
    from app.runtime import translations

    words = translations.translations(language)
    return Message(
        title="Eventr",
        body=words.gettext("Notifications reach this device."),
        url="/settings/notifications",
        tag=TEST,
        lang=language,
        dir=str(translations.locale(language).text_direction),
        always=True,
    )


_TITLES: Mapping[NoteKind, Callable[[Words], str]] = {
    NoteKind.FOLLOWER: lambda words: words.gettext("New follower"),
    NoteKind.REQUEST: lambda words: words.gettext("Somebody asks to follow you"),
    NoteKind.RESHARE: lambda words: words.gettext("Shared again"),
    NoteKind.LIKE: lambda words: words.gettext("New like"),
    NoteKind.COMMENT: lambda words: words.gettext("New comment"),
    NoteKind.REPLY: lambda words: words.gettext("New answer"),
    NoteKind.MENTION: lambda words: words.gettext("You are mentioned"),
    NoteKind.IMPORT: lambda words: words.gettext("Import ended"),
    NoteKind.EXPORT: lambda words: words.gettext("Export ready"),
}


def _follower(note: Note, who: str, what: str, words: Words) -> str:
    return words.ngettext("%(who)s follows you", "%(who)s follow you", note.count) % {"who": who}


def _request(note: Note, who: str, what: str, words: Words) -> str:
    found = words.ngettext("%(who)s asks to follow you", "%(who)s ask to follow you", note.count)
    return found % {"who": who}


def _reshare(note: Note, who: str, what: str, words: Words) -> str:
    found = words.ngettext("%(who)s re-shared %(what)s", "%(who)s re-shared %(what)s", note.count)
    return found % {"who": who, "what": what}


def _like(note: Note, who: str, what: str, words: Words) -> str:
    found = words.ngettext("%(who)s likes %(what)s", "%(who)s like %(what)s", note.count)
    return found % {"who": who, "what": what}


def _comment(note: Note, who: str, what: str, words: Words) -> str:
    found = words.ngettext(
        "%(who)s commented on %(what)s",
        "%(num)s comments on %(what)s by %(who)s",
        note.count,
    )
    return found % {"who": who, "what": what, "num": note.count}


def _reply(note: Note, who: str, what: str, words: Words) -> str:
    found = words.ngettext(
        "%(who)s answered your comment on %(what)s",
        "%(num)s answers to your comment on %(what)s by %(who)s",
        note.count,
    )
    return found % {"who": who, "what": what, "num": note.count}


def _mention(note: Note, who: str, what: str, words: Words) -> str:
    return words.gettext("%(who)s mentions you: %(what)s") % {"who": who, "what": what}


def _import(note: Note, who: str, what: str, words: Words) -> str:
    return words.gettext("Your import has ended")


def _export(note: Note, who: str, what: str, words: Words) -> str:
    return words.gettext("Your export is ready")


_SENTENCES: Mapping[NoteKind, Callable[[Note, str, str, Words], str]] = {
    NoteKind.FOLLOWER: _follower,
    NoteKind.REQUEST: _request,
    NoteKind.RESHARE: _reshare,
    NoteKind.LIKE: _like,
    NoteKind.COMMENT: _comment,
    NoteKind.REPLY: _reply,
    NoteKind.MENTION: _mention,
    NoteKind.IMPORT: _import,
    NoteKind.EXPORT: _export,
}


def _who(faces: tuple[Face, ...], count: int, words: Words) -> str:
    """Return people for a sentence: two by name, the others by their number."""
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


def _apart(name: str) -> str:
    """Return foreign words for a sentence, whatever direction they are written in."""
    return f"\u2068{name}\u2069"
