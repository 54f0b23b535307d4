"""Imports from other readers' servers: the pages read so far, the next one, and the encrypted login.

Each page is stored in the transaction that says where the next one begins. So a run that dies is continued by
the next one, and neither reads a page for nothing nor leaves one out.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from app.config import Settings
from app.errors import N_, ConflictError, EventrError, InvalidError, NotFoundError, TooLargeError
from app.feeds import sealing
from app.feeds.fetch.address_policy import Policy, check_headers
from app.feeds.opml import opml
from app.feeds.readers.greader import GoogleReader
from app.feeds.readers.miniflux import MinifluxReader
from app.feeds.readers.newsblur import NewsBlurReader
from app.feeds.readers.steps import ServerReader
from app.gateways.imports.archives import ArchiveGateway, TextRoom
from app.gateways.imports.imports import PREVIEW_KEPT, ImportGateway
from app.mappers.imports.imports import ImportMapper
from app.mappers.mongo.cells import Cells
from app.mappers.mongo.store import Session
from app.models.imports.archives import MarkCount, SavedEntry
from app.models.imports.imports import ActiveImport, Import, ImportState
from app.models.imports.opml import SubscriptionList
from app.models.imports.pulls import (
    ADDRESS_MAX,
    END,
    OPEN_MAX,
    Login,
    Pull,
    PulledPage,
    PullKind,
    shorten_stage,
)

_READERS: Final[Mapping[PullKind, Callable[[str, Login], ServerReader]]] = {
    PullKind.GREADER: GoogleReader,
    PullKind.MINIFLUX: MinifluxReader,
    PullKind.NEWSBLUR: NewsBlurReader,
}
#: The only server of its kind.
NEWSBLUR: Final = "https://www.newsblur.com"
#: Runs that may begin without storing a page before an import ends.
TRIES: Final = 25
TOO_LARGE: Final = N_("The other server's answers are larger than this server accepts.")
#: A run that has stored nothing for so long is dead.
_SILENT: Final = dt.timedelta(minutes=5)
_AT_ONCE: Final = 1000
_READING: Final = (ImportState.READING,)


class PulledImportGateway:
    """Stores imports that read other servers."""

    def __init__(
        self,
        *,
        cells: Cells,
        imports: ImportGateway,
        import_mapper: ImportMapper,
        archives: ArchiveGateway,
        settings: Settings,
    ) -> None:
        self._cells, self._imports, self.mapper, self._archives = cells, imports, import_mapper, archives
        self._key, self._policy = sealing.derive_key(settings.secret_key), Policy(settings)

    def add(
        self,
        user_id: int,
        kind: PullKind,
        address: str,
        login: Login,
        now: dt.datetime,
        *,
        instead_of: int = 0,
    ) -> Import:
        """Store an import that is still to read a server.

        Args:
            instead_of: id of an import whose server isn't answering, which is deleted; 0: none.

        Raises:
            ConflictError: that import isn't waiting for its server anymore; nothing is stored.
            InvalidError: this isn't the address of a server of this kind, or this server has no key to
                encrypt a login; or no request can have this token.
        """
        if kind is PullKind.MINIFLUX:
            _check_token(login.secret)
        address = self._find_newsblur(address) if kind is PullKind.NEWSBLUR else self._resolve(address)
        if not self._key:
            raise InvalidError("This server has no key for secrets. Ask its administrator to set one.")
        sealed = sealing.encrypt_text(self._key, json.dumps(login).encode(), _name(user_id))
        new = Import(
            id=0,
            user_id=user_id,
            name=address.partition("//")[2].partition("/")[0],
            created=now,
            state=ImportState.READING,
            pull=Pull(kind=kind, address=address, sealed=sealed, due=now),
        )
        if not instead_of:
            return self.mapper.add(new, [], _find_expiry(new))

        def replace_import(session: Session) -> Import:
            if not self.mapper.remove_pull(user_id, instead_of, session):
                raise self._explain_staying(user_id, instead_of, session)
            return self.mapper.add(new, [], _find_expiry(new), session)

        added = self._cells.run_in_transaction(user_id, replace_import)
        self.mapper.remove_parts(user_id, instead_of)
        return added

    def _explain_staying(self, user_id: int, import_id: int, session: Session) -> ConflictError:
        """Return the error that says why an import isn't replaced."""
        found = self.mapper.find(user_id, import_id, session)
        if found is None:
            return ConflictError("The import that was waiting was deleted or replaced meanwhile.")
        if found.state is ImportState.UNREADABLE:
            return ConflictError("This import ended meanwhile. Start it again from here.")
        return ConflictError(
            "The server has answered meanwhile. This import goes on, and nothing was changed."
        )

    def _resolve(self, address: str) -> str:
        text = address.strip()
        text = text if "://" in text or not text else f"https://{text}"
        url, fault = opml.resolve_address(text, self._policy)
        if fault and fault.word == "login_in_url":
            raise InvalidError("Enter the address without a name and password in it.", field="address")
        if (fault and fault.word != "refused") or len(url) > ADDRESS_MAX or not url:
            raise InvalidError(
                "Enter the web address of your reader's server, such as https://rss.example.org.",
                field="address",
            )
        return url.partition("#")[0].partition("?")[0].rstrip("/")

    def _find_newsblur(self, address: str) -> str:
        # A login for NewsBlur goes nowhere else, and one for another server doesn't go to NewsBlur.
        if address and self._resolve(address) != NEWSBLUR:
            raise InvalidError(
                "Leave the address empty: your login for NewsBlur is only sent to www.newsblur.com.",
                field="address",
            )
        return NEWSBLUR

    def find_pulling(self) -> list[tuple[ActiveImport, dt.datetime]]:
        """Return the imports that read servers, and when each is due."""
        return self.mapper.find_pulling(_AT_ONCE)

    def has_other_run(self, user_id: int, import_id: int, now: dt.datetime) -> bool:
        """Return whether a live run reads another server for this user."""
        return self.mapper.has_other_pull(user_id, import_id, now - _SILENT)

    def begin_run(self, user_id: int, import_id: int, run: str, now: dt.datetime) -> Import | None:
        """Let a run own an import that is due; return None if there is no such import.

        Raises:
            InvalidError: too many runs began and stored nothing.
        """
        one = self.mapper.find(user_id, import_id)
        if one is None or one.pull is None or one.state is not ImportState.READING or one.pull.due > now:
            return None
        begun = self.mapper.set_pull(
            one, dataclasses.replace(one.pull, run=run), {"touched": now}, run=one.pull.run, begin=True
        )
        return begun

    def open_reader(self, one: Import) -> ServerReader:
        """Return what reads the server of an import.

        Raises:
            InvalidError: the login can't be decrypted anymore, or too many runs began in vain.
        """
        pull = _get_pull(one)
        if one.tries > TRIES:
            raise InvalidError("Reading this server failed again and again. Start the import once more.")
        plain = sealing.open_seal(self._key, pull.sealed, _name(one.user_id)) if self._key else None
        if plain is None:
            raise InvalidError(
                "Eventr can no longer read the login you stored for this server. "
                "Enter it again to restart the import."
            )
        return _READERS[pull.kind](pull.address, Login(*json.loads(plain)))

    def store_page(
        self, one: Import, page: PulledPage, stage: str, cursor: str, now: dt.datetime, *, limit: int
    ) -> Import | None:
        """Store a page, and where the next one begins; return None if this run has lost the import.

        Args:
            stage: of this page; or :data:`END`.
            cursor: empty: this was the last page of its stage.
            limit: most characters that all pages may have, without texts of entries.

        Raises:
            TooLargeError: they have more.
        """
        pull = _get_pull(one)
        room = TextRoom(pull.texts)
        entries = tuple(room.cut_text(self._archives.cut_texts(entry)) for entry in page.entries)
        # Texts have a limit of their own, beyond which the rest of the entries is still read.
        stored = pull.stored + sum(entry.size - len(entry.html) for entry in entries)
        if stored > limit:
            raise TooLargeError(TOO_LARGE)
        following = dataclasses.replace(
            pull,
            stage=stage,
            cursor=cursor,
            done=pull.done if cursor else (*pull.done, shorten_stage(stage)),
            pages=pull.pages + 1,
            entries=pull.entries + len(entries),
            stored=stored,
            texts=room.used,
            long=pull.long + room.cut,
            asked=pull.asked + page.listed,
            failures=0,
            problem="",
            asked_until=None,
            due=now,
        )
        values = {"touched": now, "tries": 0}

        def write_page(session: Session) -> Import | None:
            found = self.mapper.set_pull(one, following, values, run=pull.run, session=session)
            if found is not None:
                self.mapper.add_pulled(one, pull.pages, entries, _find_expiry(one), session)
            return found

        return self._cells.run_in_transaction(one.user_id, write_page)

    def put_off(
        self,
        one: Import,
        word: str,
        due: dt.datetime,
        now: dt.datetime,
        *,
        asked_until: dt.datetime | None = None,
    ) -> Import | None:
        """Store when to go on with a server; return None if this run has lost the import.

        Args:
            word: error word of the last fetch; empty: the server did nothing wrong.
            asked_until: until when the server asked to wait; None: it didn't.
        """
        pull = _get_pull(one)
        failures = pull.failures + bool(word)
        later = dataclasses.replace(
            pull, failures=failures, problem=word, due=due, asked_until=asked_until, run=""
        )
        return self.mapper.set_pull(one, later, {"touched": now, "tries": 0}, run=pull.run)

    def give_up(self, one: Import, error: EventrError, now: dt.datetime) -> Import | None:
        """End an import whose server can't be read, and delete its login; return None if the run lost it."""
        pull = _get_pull(one)
        values = {
            "state": ImportState.UNREADABLE.value,
            "server": [pull.kind.value, pull.address],
            "fault": [error.sentence, {k: v for k, v in error.ids.items() if isinstance(v, str | int)}],
            "ended": now,
            "expires": now + PREVIEW_KEPT,
        }
        found = self.mapper.end_pull(one, values, pull.run)
        if found is not None:
            self.mapper.remove_pulled(one)
        return found

    def finish(self, one: Import, subscriptions: SubscriptionList, now: dt.datetime) -> Import | None:
        """Make all that was read a preview, and delete the login; return None if the run lost it.

        Raises:
            TooLargeError: there are too many feeds.
            InvalidError: some of the pages are gone.
        """
        pull = _get_pull(one)
        checked = dataclasses.replace(pull, stage=END, cursor="")
        if self.mapper.set_pull(one, checked, {"touched": now}, run=pull.run) is None:
            return None
        count = 0

        def iterate_all() -> Iterator[SavedEntry]:
            nonlocal count
            for count, entry in enumerate(self.mapper.iter_pulled(one), 1):  # noqa: B007
                yield entry

        contents = self._archives.build_contents([subscriptions], iterate_all())
        if count != pull.entries:
            raise InvalidError("Some of what was read is gone. Start the import once more.")
        new, items = self._imports.plan(one.user_id, contents.subscriptions)
        marks = dict(contents.counts)
        if long := marks.get(MarkCount.LONG, 0) + pull.long:
            marks[MarkCount.LONG.value] = long
        read = dataclasses.replace(new, marks=marks)
        done = self.mapper.put_contents(one, read, items, contents.marks, now + PREVIEW_KEPT, run=pull.run)
        if done is not None:
            self.mapper.remove_pulled(one)
        return done


def _find_expiry(one: Import) -> dt.datetime:
    """Return when what a pull has stored expires: the same time for all of it, after the pull's own end."""
    return one.created + OPEN_MAX + PREVIEW_KEPT


def _check_token(secret: str) -> None:
    try:
        check_headers([("X-Auth-Token", secret)])
    except InvalidError as e:
        raise InvalidError(
            "This token has characters that no token can have. Copy it from your reader once more.",
            field="secret",
        ) from e


def _get_pull(one: Import) -> Pull:
    if one.pull is None:
        raise NotFoundError(import_id=one.id)
    return one.pull


def _name(user_id: int) -> bytes:
    return b"import %d" % user_id
