"""Index workers that die: a process of its own that indexes, and is killed at a certain moment."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import signal
from collections.abc import Callable, Iterator
from typing import Any

from app.adapters.search.generations import Generations
from app.adapters.search.tantivy_index import IndexWriter
from app.bootstrap import services as bootstrap
from app.commands.search import build_server
from app.config import Settings
from app.errors import SearchUnavailableError
from app.gateways.reading.indexing import IndexingGateway
from app.mappers.reading.index_queue import IndexQueueMapper
from app.mappers.reading.twins import TwinMapper
from app.services.reading import indexing
from tests.support.database import NOW

#: Moment → the call before which, or after which, the process dies, and which of these calls that is.
MOMENTS: dict[str, tuple[type, str, bool, int]] = {
    "before a batch": (Generations, "set_batch", False, 1),
    "before the copies": (TwinMapper, "write", False, 1),
    "after the copies": (TwinMapper, "write", True, 1),
    "before a commit": (IndexWriter, "commit_batch", False, 1),
    "between commit and marks": (IndexWriter, "commit_batch", True, 1),
    "after the place": (IndexQueueMapper, "record_place", True, 1),
    "after the marks": (IndexingGateway, "mark_indexed", True, 1),
    "before the position of a rebuild": (Generations, "set_position", False, 2),
    "before the switch": (Generations, "switch_to", False, 1),
    "after the switch": (Generations, "switch_to", True, 1),
}
#: What changes the index, its files or the marks.
CHANGES: tuple[tuple[type, str], ...] = (
    (IndexWriter, "add"),
    (IndexWriter, "delete_entries"),
    (IndexWriter, "commit_batch"),
    (Generations, "set_batch"),
    (Generations, "set_position"),
    (Generations, "switch_to"),
    (IndexingGateway, "mark_indexed"),
    (IndexingGateway, "forget_removals"),
)
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__])


def index_and_die(settings: Settings, moment: str) -> None:
    """Index in another process, with small batches, that is killed at the given moment."""
    assert _run(_index_until, settings, moment) == -signal.SIGKILL


def index_and_die_at_call(settings: Settings, number: int, delay: float | None) -> bool:
    """Index in another process that is killed at a call that changes the index or the marks.

    Return whether it was killed.

    Args:
        number: of the call, from 1; if there are fewer calls, the process ends normally.
        delay: seconds after the call begins, so that the engine is killed while it writes; None: before it.
    """
    code = _run(_index_until_call, settings, number, delay)
    assert code in (0, -signal.SIGKILL, -signal.SIGALRM)
    return code != 0


def _index_until_call(settings: Settings, number: int, delay: float | None) -> None:
    indexing.COMMIT_ENTRIES = 2
    left = number

    def watch(owner: type, name: str) -> None:
        original = getattr(owner, name)

        def counting(*args: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0 and delay is None:
                os.kill(os.getpid(), signal.SIGKILL)
            if left == 0 and delay is not None:
                signal.setitimer(signal.ITIMER_REAL, delay)  # its signal ends the process at any instruction
            return original(*args, **named)

        setattr(owner, name, counting)

    for owner, name in CHANGES:
        watch(owner, name)
    with contextlib.closing(bootstrap.build(settings)) as services:
        services.indexing.run(NOW, 60.0)


def index_standby_and_die(settings: Settings, moment: str) -> None:
    """Do the same with a standby index."""
    assert _run(_index_until, settings, moment, True) == -signal.SIGKILL


@contextlib.contextmanager
def serve_search(settings: Settings) -> Iterator[tuple[str, Callable[[], None]]]:
    """Answer searches in another process; yield its address, and a function that kills it."""
    receiver, sender = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=_serve, args=(settings, sender))
    process.start()

    def kill() -> None:
        process.kill()
        process.join()

    try:
        yield f"http://127.0.0.1:{receiver.recv()}", kill
    finally:
        kill()


def _serve(settings: Settings, sender: Any) -> None:
    with build_server(settings, "127.0.0.1", 0) as server:
        sender.send(server.server_address[1])
        server.serve_forever()


def index_on_full_disk(settings: Settings) -> None:
    """Index in another process that cannot write files; it must say that the search is unavailable."""
    assert _run(_index_without_room, settings) == 0


def _run(target: Callable[..., None], *args: Any) -> int | None:
    process = _CONTEXT.Process(target=target, args=args)
    process.start()
    process.join()
    return process.exitcode


def _index_until(settings: Settings, moment: str, is_standby: bool = False) -> None:
    owner, name, is_after, times = MOMENTS[moment]
    original, calls = getattr(owner, name), 0

    def dying(*args: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == times and not is_after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*args, **named)
        if calls == times:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, dying)
    indexing.COMMIT_ENTRIES = 5  # so that a batch has a whole feed and a part of the next one
    with contextlib.closing(bootstrap.build(settings)) as services:
        (services.standby if is_standby else services.indexing).run(NOW, 60.0)


def _index_without_room(settings: Settings) -> None:
    with contextlib.closing(bootstrap.build(settings)) as services:
        services.indexing.get_state()  # MongoDB's part works
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        try:
            services.indexing.run(NOW, 60.0)
        except SearchUnavailableError:
            return
        os._exit(3)
