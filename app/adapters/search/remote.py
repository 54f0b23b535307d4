"""The search of other servers, over HTTP: ``eventr search serve`` answers there.

A request is one POST with the search as JSON, and with a token that only servers with the same
``EVENTR_SECRET_KEY`` can make. So both servers need the same key, as their sessions do.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import http.client
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from app.errors import SearchUnavailableError
from app.models.reading.entry import EntryKey
from app.models.reading.search import SearchRequest, SearchResult, Term, TermField

#: Time limit of one attempt in seconds, and the number of attempts, which several servers share.
PATIENCE, ATTEMPTS = 2.0, 2
#: Seconds during which a server that didn't answer is tried after the others.
AWAY = 30.0
PATH = "/find"
#: Longest request in bytes: 20,000 ids and 10,000 feeds are under 1 MB.
LONGEST = 4 << 20


class RemoteSearch:
    """Implements :class:`app.ports.SearchPort` by asking other servers.

    Args:
        addresses: of these servers, such as ``http://10.0.0.5:9190``; the first one that answers is asked.
        secret: this installation's secret key.
    """

    def __init__(self, addresses: Sequence[str], secret: str) -> None:
        self._addresses = tuple(addresses)
        self._away_until = dict.fromkeys(self._addresses, 0.0)
        self._token = make_token(secret)

    def find(self, wanted: SearchRequest, limit: int) -> SearchResult:
        """Return about ``limit`` matching entries.

        Raises:
            SearchUnavailableError: no server answered twice, or their searches are unavailable.
        """
        body, failure = encode_request(wanted, limit), Exception()
        now = time.monotonic()
        addresses = sorted(self._addresses, key=lambda address: self._away_until[address] > now)
        for address in (addresses * ATTEMPTS)[:ATTEMPTS]:
            try:
                result = decode_result(self._post(address, body))
            except SearchUnavailableError as e:
                failure = e
                if len(addresses) == 1:
                    break  # it has answered
            except (OSError, http.client.HTTPException, ValueError, msgspec.MsgspecError) as e:
                failure = e
            else:
                self._away_until[address] = 0.0
                return result
            self._away_until[address] = time.monotonic() + AWAY
        raise SearchUnavailableError from failure

    def _post(self, address: str, body: bytes) -> bytes:
        parts = urlsplit(address)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=PATIENCE)
        end = time.monotonic() + PATIENCE
        try:
            connection.request("POST", PATH, body, {"Authorization": f"Bearer {self._token}"})
            if connection.sock is not None:
                connection.sock.settimeout(max(0.01, end - time.monotonic()))
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.status != http.client.OK:
            raise SearchUnavailableError
        return text


def make_token(secret: str) -> str:
    """Return the token by which servers of one installation know each other."""
    return hmac.new(secret.encode(), b"eventr search", hashlib.sha256).hexdigest()


class _Wanted(msgspec.Struct):
    """A search as JSON; lists instead of maps with numbers as keys."""

    limit: int
    feeds: list[tuple[int, int, int]]
    newest: int
    terms: list[tuple[list[str], str, str, bool]]
    without: list[tuple[list[str], str, str, bool]]
    since: int | None
    until: int | None
    ids: list[int] | None
    newest_first: bool
    after: tuple[int, int] | None
    by_relevance: bool


class _Found(msgspec.Struct):
    keys: list[tuple[int, int, int, int]]
    after: tuple[int, int] | None
    cut: tuple[str, ...]
    is_partial: bool


def encode_request(wanted: SearchRequest, limit: int) -> bytes:
    """Return a search as JSON."""
    fields: dict[str, Any] = {f.name: getattr(wanted, f.name) for f in dataclasses.fields(wanted)}
    fields["feeds"] = [(feed, *numbers) for feed, numbers in wanted.feeds.items()]
    for name in ("terms", "without"):
        fields[name] = [(list(t.words), str(t.where), t.typed, t.is_prefix) for t in fields[name]]
    fields["ids"] = None if wanted.ids is None else list(wanted.ids)
    # The driver of the database has its own integers.
    return msgspec.json.encode(_Wanted(limit=limit, **fields), enc_hook=int)


def decode_request(body: bytes) -> tuple[SearchRequest, int]:
    """Return a search and its limit.

    Raises:
        ValueError: the body isn't a search.
    """
    fields = msgspec.json.decode(body, type=_Wanted)
    terms, without = (
        tuple(Term(tuple(words), TermField(where), typed, prefix) for words, where, typed, prefix in rows)
        for rows in (fields.terms, fields.without)
    )
    wanted = SearchRequest(
        feeds={feed: (first, last) for feed, first, last in fields.feeds},
        newest=fields.newest,
        terms=terms,
        without=without,
        since=fields.since,
        until=fields.until,
        ids=None if fields.ids is None else frozenset(fields.ids),
        newest_first=fields.newest_first,
        after=fields.after,
        by_relevance=fields.by_relevance,
    )
    return wanted, fields.limit


def encode_result(result: SearchResult) -> bytes:
    """Return a result as JSON."""
    keys = [(key.id, key.feed_id, key.seq, key.at) for key in result.keys]
    return msgspec.json.encode(_Found(keys, result.after, result.cut, result.is_partial))


def decode_result(text: bytes) -> SearchResult:
    """Return a result; raises ValueError if the text isn't one."""
    found = msgspec.json.decode(text, type=_Found)
    keys = [EntryKey(*key) for key in found.keys]
    return SearchResult(keys, found.after, found.cut, found.is_partial)
