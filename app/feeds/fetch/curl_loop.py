"""The fetch engine below all drivers: one libcurl multi, one epoll set, timers, one slot per transfer.

libcurl says which sockets to watch and when its next timer is due. All sockets are registered in one
epoll set, and a driver waits for its descriptor. So an asyncio loop sees a single descriptor, however
many connections there are. That saves 0.01 ms a fetch compared to a reader and a writer per socket.
"""

from __future__ import annotations

import functools
import select
import time

import pycurl

from app.config import Settings
from app.errors import FetchError
from app.feeds.fetch.hosts import HostQueues
from app.feeds.fetch.resolver import Answer, Resolver, choose_addresses
from app.feeds.fetch.slot import TIDY, Setup, Slot
from app.feeds.fetch.transfer import Done, HopResult, Transfer
from app.models.feeds.fetched import Fetched, FetchRequest
from app.models.feeds.hosts import PICTURE_PREFIX

_EPOLL = {
    pycurl.POLL_NONE: 0,
    pycurl.POLL_IN: select.EPOLLIN,
    pycurl.POLL_OUT: select.EPOLLOUT,
    pycurl.POLL_INOUT: select.EPOLLIN | select.EPOLLOUT,
}
_MASKS = {select.EPOLLIN: pycurl.CSELECT_IN, select.EPOLLOUT: pycurl.CSELECT_OUT}
_READABLE = select.EPOLLIN | select.EPOLLHUP | select.EPOLLRDHUP
#: Events handled per turn; the driver gets the thread back in between.
_EVENTS = 256
#: Transfers ended between two checks of the decoded bytes, and the bytes that end a turn. So the caller
#: can release results before more bodies are decoded.
_AT_ONCE = 4
_DECODED = 16 << 20
#: Deadline checks per shortest timeout.
_SWEEPS = 10


class Engine:
    """Runs transfers; single-threaded, driven by :meth:`run_once`."""

    def __init__(self, setup: Setup, resolver: Resolver) -> None:
        self._setup, self._settings, self._resolver = setup, setup.settings, resolver
        self._epoll = select.epoll()
        self._epoll.register(resolver.fd, select.EPOLLIN)
        self._watched: set[int] = set()
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._on_socket)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._on_timer)
        self._multi.setopt(pycurl.M_MAXCONNECTS, setup.settings.fetch_connections + 16)
        self._curl_due: float | None = None
        self._sweep_due = 0.0
        self._sweep_every = _sweep_interval(setup.settings)
        self._queues: HostQueues[Transfer] = HostQueues(functools.partial(_get_limit, setup.settings))
        self._running: dict[Transfer, Slot | None] = {}
        self._asking: dict[str, list[Transfer]] = {}
        self._by_curl: dict[pycurl.Curl, Slot] = {}
        self._idle: list[Slot] = []
        self._ended: list[tuple[Done, Fetched]] = []
        self._more = False
        self._begun = 0
        self._decoded = 0  # bytes of the bodies in _ended

    @property
    def fd(self) -> int:
        """The descriptor that is readable when :meth:`run_once` has work to do."""
        return self._epoll.fileno()

    @property
    def running(self) -> int:
        """The number of transfers that hold a slot."""
        return len(self._running)

    def submit(self, request: FetchRequest, on_done: Done) -> Transfer:
        """Queue a fetch; a later :meth:`run_once` calls ``on_done``, this method never does."""
        transfer = Transfer(request, on_done, self._settings, self._setup.policies[request.purpose])
        try:
            transfer.begin()
        except FetchError as e:
            self._ended.append((on_done, transfer.fail(e)))
            return transfer
        self._queues.add(transfer.queue, transfer)
        return transfer

    def cancel(self, transfer: Transfer) -> None:
        """Forget a fetch; its slot is free at once and ``done`` is never called."""
        transfer.done = _nobody
        if transfer in self._running:
            self._leave(transfer)
        else:
            self._queues.remove(transfer.queue, transfer)

    def get_timeout(self) -> float | None:
        """Return the seconds until :meth:`run_once` must run without readable sockets; None for never."""
        if self._ended or self._more or self._startable():
            return 0.0
        due = [d for d in (self._curl_due, self._sweep_due if self._running else None) if d is not None]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def run_once(self, wait: float | None) -> None:
        """Start waiting transfers, wait for events (at most ``wait`` seconds, if given), handle them."""
        self._start_waiting()
        self._run_curl()
        # On an open connection, a whole fetch can happen inside the call that starts it.
        self._collect()
        limit = self.get_timeout() if wait is None or self._more else wait
        act, names = self._multi.socket_action, self._resolver.fd
        for fd, events in self._epoll.poll(limit, _EVENTS):
            if fd == names:
                self._resolved()
            else:
                act(fd, _MASKS.get(events) or _mask(events))
        self._run_curl()
        self._collect()
        # Last: a response that arrived in time counts, even if this process reads it late.
        if self._running and not self._more:
            self._sweep(time.monotonic())
        ended, self._ended, self._decoded = self._ended, [], 0
        for done, fetched in ended:
            done(fetched)
        self._start_waiting()

    def close(self) -> None:
        """Cancel everything and close all connections."""
        for transfer in list(self._running):
            self.cancel(transfer)
        for slot in self._idle:
            slot.curl.close()
        self._multi.close()
        self._epoll.close()

    # -- from the queue to a connection

    def _startable(self) -> bool:
        return self._queues.ready and len(self._running) < self._settings.fetch_connections

    def _start_waiting(self) -> None:
        while self._startable():
            transfer = self._queues.pop_next()
            now = time.monotonic()
            self._running[transfer] = None
            transfer.deadline = now + transfer.left
            self._find_addresses(transfer)

    def _find_addresses(self, transfer: Transfer) -> None:
        proxy, endpoint = self._setup.proxy, transfer.endpoint
        if proxy is None and endpoint.is_ip_literal:
            transfer.pinned = (endpoint.host,)
            self._connect(transfer)
            return
        host, port = (endpoint.host, endpoint.port) if proxy is None else (proxy.host, proxy.port)
        answer = self._resolver.get_cached(host)
        if answer is not None:
            self._use_addresses(transfer, answer)
            return
        transfer.dns_until = time.monotonic() + self._settings.fetch_connect_timeout
        self._asking.setdefault(host, []).append(transfer)
        self._resolver.start_lookup(host, port)

    def _resolved(self) -> None:
        for host, answer in self._resolver.collect_answers():
            for transfer in self._asking.pop(host, ()):
                if transfer in self._running and self._running[transfer] is None:
                    self._use_addresses(transfer, answer)

    def _use_addresses(self, transfer: Transfer, answer: Answer) -> None:
        """Refuse the hop if any address isn't public (S07); otherwise pin at most four and connect."""
        endpoint = transfer.endpoint
        if answer.problem or not answer.addresses:
            self._fail(transfer, FetchError("dns_failed", answer.problem or "no address"))
            return
        if self._setup.proxy is None:
            try:
                for ip in answer.addresses:
                    transfer.policy.check_address(
                        ip, endpoint.host, endpoint.port, requested=transfer.requested
                    )
            except FetchError as e:
                self._fail(transfer, e)
                return
        transfer.pinned = choose_addresses(answer.addresses)
        self._connect(transfer)

    def _connect(self, transfer: Transfer) -> None:
        slot = self._idle.pop() if self._idle else self._new_slot()
        self._begun += 1
        try:
            slot.begin(transfer, forget_dns=self._begun % TIDY == 0)
        except (ValueError, pycurl.error) as e:
            # A request that libcurl or pycurl rejects ends this transfer only.
            slot.clear()
            self._idle.append(slot)
            self._fail(transfer, FetchError("bad_response", f"the address can't be requested: {e}"))
            return
        self._running[transfer] = slot
        self._multi.add_handle(slot.curl)

    def _new_slot(self) -> Slot:
        slot = Slot(self._setup)
        self._by_curl[slot.curl] = slot
        return slot

    # -- from a connection to the end

    def _collect(self) -> None:
        """Handle finished transfers until this turn's bodies exceed the limit; the rest waits."""
        self._more = False
        while True:
            left, good, bad = self._multi.info_read(_AT_ONCE)
            for curl in good:
                self._hop_ended(curl, 0, "")
            for curl, code, message in bad:
                self._hop_ended(curl, code, message)
            if not left:
                return
            if self._decoded > _DECODED:
                self._more = True
                return

    def _hop_ended(self, curl: pycurl.Curl, code: int, message: str) -> None:
        slot = self._by_curl[curl]
        transfer = slot.transfer
        assert transfer is not None  # noqa: S101 — each handle in the multi has a transfer
        got = slot.end(code, message)
        self._go_on(transfer, got)

    def _go_on(self, transfer: Transfer, got: HopResult) -> None:
        """Free the slot, then end the fetch or queue its next hop under that hop's host."""
        self._leave(transfer)
        fetched = transfer.finish_hop(got)
        if fetched is not None:
            self._ended.append((transfer.done, fetched))
            if fetched.body is not None:
                self._decoded += len(fetched.body)
            return
        transfer.left = transfer.deadline - time.monotonic()
        self._queues.add(transfer.queue, transfer)

    def _fail(self, transfer: Transfer, error: FetchError) -> None:
        self._go_on(transfer, HopResult(0, error=error))

    def _leave(self, transfer: Transfer) -> None:
        slot = self._running.pop(transfer)
        self._queues.release(transfer.queue)
        if slot is not None:
            self._multi.remove_handle(slot.curl)
            slot.clear()
            self._idle.append(slot)

    # -- time

    def _run_curl(self) -> None:
        if self._curl_due is not None and self._curl_due <= time.monotonic():
            self._curl_due = None
            self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)

    def _sweep(self, now: float) -> None:
        """End transfers past their deadline (X06), at intervals; libcurl's own limits are whole seconds."""
        if now < self._sweep_due:
            return
        self._sweep_due = now + self._sweep_every
        for transfer, slot in list(self._running.items()):
            error = _late(transfer, slot, now)
            if error is not None:
                got = slot.end(0, "") if slot is not None else HopResult(0)
                self._go_on(transfer, HopResult(got.status, error=got.error or error))

    # -- called by libcurl

    def _on_socket(self, what: int, fd: int, _multi: object, _data: object) -> None:
        watched = self._watched
        if fd not in watched:
            if what != pycurl.POLL_REMOVE:
                watched.add(fd)
                self._epoll.register(fd, _EPOLL[what])
        elif what == pycurl.POLL_REMOVE:
            watched.remove(fd)
            self._epoll.unregister(fd)
        else:
            self._epoll.modify(fd, _EPOLL[what])

    def _on_timer(self, milliseconds: int) -> None:
        self._curl_due = None if milliseconds < 0 else time.monotonic() + milliseconds / 1000


def _get_limit(settings: Settings, queue: str) -> int:
    is_of_pictures = queue.startswith(PICTURE_PREFIX)
    return settings.fetch_pictures_per_host if is_of_pictures else settings.fetch_per_host


def _late(transfer: Transfer, slot: Slot | None, now: float) -> FetchError | None:
    waited_for = slot.find_stall(now) if slot is not None else None
    if waited_for is not None:
        return FetchError("timeout", f"waited too long for the {waited_for}")
    if slot is None and now >= transfer.dns_until:
        return FetchError("dns_failed", "the DNS resolver didn't respond in time")
    if now >= transfer.deadline:
        return FetchError("timeout", "the whole fetch took too long")
    return None


def _mask(events: int) -> int:
    mask = pycurl.CSELECT_IN if events & _READABLE else 0
    mask |= pycurl.CSELECT_OUT if events & select.EPOLLOUT else 0
    return mask | (pycurl.CSELECT_ERR if events & select.EPOLLERR else 0)


def _sweep_interval(settings: Settings) -> float:
    shortest = min(
        settings.fetch_connect_timeout,
        settings.fetch_first_byte_timeout,
        settings.fetch_idle_timeout,
        settings.fetch_total_timeout,
    )
    return min(0.5, shortest / _SWEEPS)


def _nobody(_fetched: Fetched) -> None:
    """Stand in for the callback of a canceled fetch."""
