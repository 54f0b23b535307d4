"""Parts that all threads of a process share are made once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from app.bootstrap.services import Services
from app.config import Settings
from app.runtime.lazy import lazy


class Thing:
    made = 0

    @lazy
    def part(self) -> object:
        """What takes a while to make: each thread comes by before the first is done."""
        Thing.made += 1
        self.inner  # noqa: B018
        return object()

    @lazy
    def inner(self) -> int:
        """A part of the part."""
        return threading.get_ident()


def test_a_part_is_made_once_by_however_many_threads() -> None:
    for _ in range(200):
        thing, Thing.made, start = Thing(), 0, threading.Barrier(8)

        def ask(thing: Thing = thing, start: threading.Barrier = start) -> object:
            start.wait()
            return thing.part

        with ThreadPoolExecutor(8) as pool:
            parts = {id(part) for part in pool.map(lambda _: ask(), range(8))}
        assert (len(parts), Thing.made) == (1, 1)
    assert isinstance(Thing.part, lazy)


def test_all_threads_have_the_same_services(settings: Settings) -> None:
    for _ in range(20):
        services, start = Services(settings), threading.Barrier(8)

        def ask(services: Services = services, start: threading.Barrier = start) -> tuple[int, ...]:
            start.wait()
            return (
                id(services.subscriptions._subscriptions._cells.home),
                id(services.hasher),
                id(services.store),
            )

        with ThreadPoolExecutor(8) as pool:
            ((store, _, same),) = set(pool.map(lambda _: ask(), range(8)))
        assert store == same
        services.close()
