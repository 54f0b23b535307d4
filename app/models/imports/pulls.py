"""Imports from another reader's server: how it is reached, and how far an import is."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import hashlib
from typing import NamedTuple

from app.models.imports.archives import SavedEntry

#: Longest address, name of a user, and password or token, characters.
ADDRESS_MAX, NAME_MAX, SECRET_MAX = 512, 256, 512
#: How long a server may be read in all; its pages are kept for longer.
OPEN_MAX = dt.timedelta(days=30)
#: The stage of a pull that has everything but the list of subscriptions.
END = "/end"


class PullKind(enum.StrEnum):
    """The interface by which a server is read.

    GREADER: Google Reader's, which FreshRSS, Miniflux, The Old Reader, BazQux and Eventr have.
    """

    GREADER = "greader"
    MINIFLUX = "miniflux"
    NEWSBLUR = "newsblur"


class Login(NamedTuple):
    """What opens the account there. ``name`` is empty if ``secret`` is a token."""

    name: str
    secret: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """How far an import from a server is.

    Attributes:
        address: of the interface, without a slash at its end.
        sealed: the login, encrypted; it is deleted when the import ends.
        due: when the next request may be sent.
        stage: name of the list that is being read; empty: the first; :data:`END`: all are read.
        cursor: where its next page begins, in the words of the server; empty: at the beginning.
        done: short names of the lists that are read, see :func:`shorten_stage`.
        pages: stored pages. entries: entries in them. stored: characters of these.
        texts: characters of their texts, beside those. long: texts that were cut or left out.
        asked: entries that the server has listed; of some it may have sent nothing.
        failures: failed tries since the last page.
        problem: what the last try failed with: an error word of a fetch; empty: it succeeded.
        asked_until: until when the server asked to wait as the last try failed; None: it didn't.
        run: name of the run that may store pages; empty: none does at present.
    """

    kind: PullKind
    address: str
    sealed: bytes
    due: dt.datetime
    stage: str = ""
    cursor: str = ""
    pages: int = 0
    entries: int = 0
    stored: int = 0
    texts: int = 0
    long: int = 0
    asked: int = 0
    done: tuple[str, ...] = ()
    failures: int = 0
    problem: str = ""
    run: str = ""
    asked_until: dt.datetime | None = None

    def is_waiting(self, now: dt.datetime) -> bool:
        """Return whether the last try failed, and the next one isn't due yet."""
        return bool(self.problem) and not self.run and self.due > now

    def is_held(self, now: dt.datetime) -> bool:
        """Return whether the server asked to wait for longer, so that it isn't tried by hand either."""
        return self.is_waiting(now) and self.asked_until is not None and self.asked_until > now


@dataclasses.dataclass(frozen=True, slots=True)
class PulledPage:
    """A page of entries.

    Attributes:
        cursor: where the next one begins; empty: this is the last of its stage.
        listed: entries that the server has listed for it, including those that can't be read.
    """

    entries: tuple[SavedEntry, ...]
    cursor: str
    listed: int


def shorten_stage(stage: str) -> str:
    """Return a short name of a list: there may be hundreds of them, with long names."""
    return hashlib.blake2s(stage.encode("utf-8", "replace"), digest_size=6).hexdigest()


class PassingError(Exception):
    """A server can't answer now; the import goes on later.

    Attributes:
        word: error word of the fetch.
        wait: seconds that the server asked for; 0: none.
    """

    def __init__(self, word: str, wait: float = 0) -> None:
        super().__init__(word)
        self.word, self.wait = word, wait


class PageTooLargeError(Exception):
    """An answer exceeds the limit; a shorter page may not."""
