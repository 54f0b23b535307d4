"""The manager's control socket: access, limits and logging of commands (security.md J04).

One JSON object per line. The manager sends the first line, then answers each line before reading the next:

    ← {"id": 0, "ok": true, "result": {"manager": …, "host": …, "pid": …}}
    → {"id": 1, "cmd": ["pause", "feed-pull"]}
    ← {"id": 1, "ok": true, "result": …}   or   {"id": 1, "ok": false, "error": {"word", "message"}}

``tail`` is answered, then sends ``{"id", "event"}`` lines until the client sends anything or hangs up. On
the loopback port, which is off by default, ``AUTH TOKEN`` must be the first line; the manager is silent
before it.

A client costs the manager one waiting task: events are read no faster than the client reads, and a client
that reads nothing for :data:`SLOW` seconds is disconnected.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Awaitable, Sequence
from typing import Any, Final

import redis

from app import logs
from app.config import Settings
from app.errors import EventrError, InvalidError, RateLimitedError, StoreError, TooLargeError
from queue_manager.control import commands, listen, peers, tail
from queue_manager.control.commands import Commands
from queue_manager.control.peers import Peer

_log = logs.get(__name__)

#: Longest line of a client, bytes.
LINE_MAX: Final = 4096
#: Most concurrent clients.
CLIENTS_MAX: Final = 4
#: Seconds after which a silent client is disconnected.
IDLE: Final = 300.0
#: Seconds after which a client that reads nothing of an answer is disconnected.
SLOW: Final = 10.0
#: Seconds to send the token, and most connections that may be about to.
HELLO: Final = 5.0
STRANGERS_MAX: Final = 16
#: Longest run of a command, seconds; Redis itself gets five.
LIMIT: Final = 30.0
_OUTAGE = (redis.RedisError, OSError)
_WORDS_MAX = 16


class ControlServer:
    """Serves the clients of one manager.

    Args:
        settings: Where to listen.
        commands: The commands that clients may run.
        hello: The first message to each client.
        client: An async client of Redis, for ``tail``.
    """

    def __init__(
        self,
        settings: Settings,
        commands: Commands,
        hello: dict[str, Any],
        client: Any,
        *,
        idle: float = IDLE,
        slow: float = SLOW,
    ) -> None:
        self._settings, self._commands, self._hello, self._client = settings, commands, hello, client
        self._idle, self._slow = idle, slow
        self._servers: list[asyncio.Server] = []
        self._serving: set[asyncio.Task[None]] = set()
        #: Number of clients being served now.
        self.clients = 0
        self._strangers = 0
        self._token = b""

    async def start(self) -> None:
        """Listen. If this fails, the manager works without a control socket; the error is logged."""
        try:
            line = listen.listen_unix(self._settings)
            self._servers.append(await asyncio.start_unix_server(self._on_unix, sock=line, limit=LINE_MAX))
        except (OSError, EventrError) as e:
            _log.error("repl_unavailable", where=str(listen.get_folder(self._settings)), error=str(e))
        if not self._settings.repl_listen:
            return
        try:
            self._token = listen.load_token(self._settings).encode()
            line = listen.listen_tcp(self._settings.repl_listen)
            self._servers.append(await asyncio.start_server(self._on_tcp, sock=line, limit=LINE_MAX))
            _log.info("repl_listens", port=line.getsockname()[1])
        except (OSError, EventrError) as e:
            _log.error("repl_unavailable", where=self._settings.repl_listen, error=str(e))

    async def close(self) -> None:
        """Disconnect all clients and remove the socket."""
        for server in self._servers:
            server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        listen.get_socket_path(self._settings, os.getpid()).unlink(missing_ok=True)

    # -- connections

    async def _on_unix(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with self._served(writer):
            peer = await asyncio.to_thread(peers.identify_peer, writer.get_extra_info("socket"))
            if peer.is_welcome:
                await self._admit(peer, reader, writer)
            else:
                _log.warning("repl_refused", reason="user", **peer.build_log_fields())

    async def _on_tcp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with self._served(writer):
            peer = peers.build_remote_peer(writer.get_extra_info("peername"))
            if self._strangers >= STRANGERS_MAX:
                _log.warning("repl_refused", reason="strangers", **peer.build_log_fields())
                return
            self._strangers += 1
            try:
                async with asyncio.timeout(HELLO):
                    known = peers.has_token(await reader.readuntil(), self._token)
            except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                known = False
            finally:
                self._strangers -= 1
            if known:
                await self._admit(peer, reader, writer)
            else:
                _log.warning("repl_refused", reason="token", **peer.build_log_fields())

    @contextlib.contextmanager
    def _served(self, writer: asyncio.StreamWriter) -> Any:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 — asyncio runs each connection in a task
        self._serving.add(task)
        try:
            yield
        except (ConnectionError, TimeoutError):
            _log.debug("repl_lost")
        finally:
            self._serving.discard(task)
            # close() would buffer forever the data that a client doesn't read.
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()

    async def _admit(self, peer: Peer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        session = Session(
            commands=self._commands,
            client=self._client,
            peer=peer,
            reader=reader,
            writer=writer,
            idle=self._idle,
            slow=self._slow,
        )
        if self.clients >= CLIENTS_MAX:
            _log.warning("repl_refused", reason="clients", **peer.build_log_fields())
            await session.fail(
                0, RateLimitedError(f"{CLIENTS_MAX} clients are already connected. Try again later.")
            )
            return
        self.clients += 1
        try:
            await session.run(self._hello)
        finally:
            self.clients -= 1


class Session:
    """One client that may use the control socket."""

    def __init__(
        self,
        *,
        commands: Commands,
        client: Any,
        peer: Peer,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        idle: float,
        slow: float,
    ) -> None:
        self._commands, self._client, self._peer = commands, client, peer
        self._reader, self._writer = reader, writer
        self._idle, self._slow = idle, slow

    async def run(self, hello: dict[str, Any]) -> None:
        """Answer until the client hangs up, is idle for too long, or violates the protocol."""
        await self._send({"id": 0, "ok": True, "result": hello})
        try:
            while (line := await self._line()) is not None:
                number, words = read_request(line)
                await self._answer(number, words)
        except EventrError as e:
            _log.warning("repl_refused", reason=e.word, **self._peer.build_log_fields())
            await self.fail(0, e)

    async def fail(self, number: int, error: EventrError) -> None:
        """Send an error."""
        await self._send(_refusal(number, error))

    async def _line(self) -> bytes | None:
        try:
            async with asyncio.timeout(self._idle):
                return await self._reader.readuntil()
        except asyncio.IncompleteReadError:
            return None
        except asyncio.LimitOverrunError as e:
            raise TooLargeError(f"A command can have at most {LINE_MAX} bytes.") from e
        except TimeoutError as e:
            raise RateLimitedError(
                f"Disconnected after {self._idle:g} seconds without a command. Connect again."
            ) from e

    async def _answer(self, number: int, words: Sequence[str]) -> None:
        started, outcome = time.monotonic(), "cancelled"
        answer: dict[str, Any] = {"id": number, "ok": True}
        try:
            is_tail = commands.find_command(words) is commands.TABLE["tail"]
            # A tail starts here, not after its answer, so that the client misses nothing.
            work = tail.find_newest_id(self._client) if is_tail else self._commands.run(words)
            answer["result"] = await _limited(words[0], work)
            outcome = "ok"
        except EventrError as e:
            is_tail, outcome, answer = False, e.word, _refusal(number, e)
        finally:
            # Log before answering: a command that the client knows to be done is on record.
            what = {"command": words[0], "arguments": list(words[1:]), "outcome": outcome}
            _log.info("repl_command", **self._peer.build_log_fields(), **what, ms=_ms_since(started))
        await self._send(answer)
        if is_tail:
            await self._tail(number, answer["result"], words[1:])

    async def _tail(self, number: int, after: str, words: Sequence[str]) -> None:
        async def send_all() -> None:
            async for event in tail.follow_events(self._client, after, words):
                await self._send({"id": number, "event": event})

        sending = asyncio.create_task(send_all())
        said = asyncio.create_task(self._reader.read(1))
        try:
            await asyncio.wait({sending, said}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            sending.cancel()
            said.cancel()
            await asyncio.gather(sending, said, return_exceptions=True)
        raise ConnectionAbortedError  # a tail ends with its connection

    async def _send(self, message: dict[str, Any]) -> None:
        self._writer.write(json.dumps(message).encode() + b"\n")
        async with asyncio.timeout(self._slow):
            await self._writer.drain()


async def _limited(command: str, work: Awaitable[Any]) -> Any:
    try:
        async with asyncio.timeout(LIMIT):
            return await work
    except (TimeoutError, *_OUTAGE) as e:
        raise StoreError from e
    except EventrError:
        raise
    except Exception as e:
        # A bug in one command must not end the manager or affect the client's other commands.
        _log.error("repl_failed", exc_info=True, command=command)
        raise EventrError from e


def _refusal(number: int, error: EventrError) -> dict[str, Any]:
    return {"id": number, "ok": False, "error": {"word": error.word, "message": error.message}}


def _ms_since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)


def read_request(line: bytes) -> tuple[int, list[str]]:
    """Read one line of a client.

    Raises:
        InvalidError: The line isn't a command.
    """
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as e:
        raise InvalidError("This isn't a command. Send one JSON object per line.") from e
    number, words = (message.get("id"), message.get("cmd")) if isinstance(message, dict) else (None, None)
    if not isinstance(number, int) or not isinstance(words, list) or not 1 <= len(words) <= _WORDS_MAX:
        raise InvalidError('This isn\'t a command. Send a JSON object such as {"id": 1, "cmd": ["status"]}.')
    if not all(isinstance(word, str) and word for word in words):
        raise InvalidError("The words of a command must be non-empty strings.")
    return number, words
