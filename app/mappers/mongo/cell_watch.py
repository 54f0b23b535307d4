"""Whether a cell responds: one thread of a process finds out, so no request waits for a dead server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from pymongo.errors import PyMongoError

from app import logs
from app.errors import CellError, StoreError

_log = logs.get(__name__)

#: Seconds between two questions to a cell that is down.
PAUSE_SECONDS = 2.0
#: Seconds after which a command without a reply makes us ask whether the cell still responds.
SILENT_SECONDS = 2.0
#: Seconds for which requests wait for a cell that has just stopped responding, such as for an election.
PATIENCE = 2.0


class CellWatch:
    """What a process knows of a cell's replica set.

    A cell is in doubt if the driver has lost its primary, a connection breaks, or a command has no reply for
    a while, and down if a call has waited for it in vain. Then a thread asks it until it responds. Requests
    that come while it is in doubt wait for the answer, all of them until the same moment; later ones are
    refused at once.

    Args:
        cell: its name.
        ask: sends the cell a query; raises StoreError.
        has_primary: returns whether the driver knows a server to write to, without waiting for one.
        patience: seconds for which requests wait for a cell in doubt.
    """

    def __init__(
        self, cell: str, ask: Callable[[], object], has_primary: Callable[[], bool], patience: float
    ) -> None:
        self._cell, self._ask, self._has_primary, self._patience = cell, ask, has_primary, patience
        self._responds = threading.Event()
        self._responds.set()
        #: Ends the pause between two questions.
        self._ask_now = threading.Event()
        self._is_closed = False
        self._waits_until = 0.0
        #: When the last reply came; 0: none yet.
        self._replied = 0.0
        #: When each command without a reply was sent, by its number.
        self._sent: dict[int, float] = {}
        #: Held while it changes whether the cell responds, or who asks: else a request may wait for nobody.
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def check(self) -> None:
        """Return if the cell may be used.

        Raises:
            CellError: it isn't responding.
        """
        if self._responds.is_set() and not self._is_doubtful():
            return
        with self._lock:
            if self._responds.is_set():
                if not self._is_doubtful():
                    return  # it has just replied
                self._begin_doubt()
            self._keep_asking()
        if not self._responds.wait(max(0.0, self._waits_until - time.monotonic())):
            raise CellError(cell=self._cell)

    def _is_doubtful(self) -> bool:
        if not self._replied:
            return False  # the first request connects
        if not self._has_primary():
            return True
        late = time.monotonic() - SILENT_SECONDS
        return any(self._replied < sent < late for sent in list(self._sent.values()))

    # -- what the driver tells

    def note_sent(self, number: int) -> None:
        """Record that a command is being sent."""
        self._sent[number] = time.monotonic()

    def note_ended(self, number: int) -> None:
        """Record that a command has ended, with a reply or without."""
        self._sent.pop(number, None)

    def note_reply(self) -> None:
        """Record that the cell responds."""
        self._replied = time.monotonic()
        if not self._responds.is_set():
            with self._lock:
                self._end_doubt()

    def note_failure(self) -> None:
        """Record that the cell isn't responding: one call has waited for it, so no other does."""
        with self._lock:
            self._waits_until = 0.0
            self._responds.clear()
            self._keep_asking()

    def note_doubt(self) -> None:
        """Record an error that came at once, as in an election: nobody has waited for the cell yet."""
        with self._lock:
            if self._responds.is_set():
                self._begin_doubt()
            self._keep_asking()

    # -- all below with the lock

    def _begin_doubt(self) -> None:
        _log.warning("cell_doubtful", cell=self._cell)
        self._waits_until = time.monotonic() + self._patience
        self._responds.clear()
        if threading.current_thread() is not self._thread:  # its own errors don't end its pause
            self._ask_now.set()

    def _end_doubt(self) -> None:
        if not self._responds.is_set():
            self._responds.set()
            _log.info("cell_responds", cell=self._cell)

    def _keep_asking(self) -> None:
        """Start the thread unless it runs; after a fork, the child has none."""
        if (self._thread is None or not self._thread.is_alive()) and not self._is_closed:
            self._thread = threading.Thread(
                target=self._ask_until_reply, name=f"cell-{self._cell}", daemon=True
            )
            self._thread.start()

    # -- the thread

    def _ask_until_reply(self) -> None:
        while True:
            self._ask_now.clear()
            if self._is_closed:
                return
            try:
                self._ask()
            except (StoreError, PyMongoError) as e:
                _log.info("cell_silent", cell=self._cell, error=type(e).__name__)
            else:
                break
            # A reply to another call may have ended the doubt, and a new one begin meanwhile.
            self._ask_now.wait(PAUSE_SECONDS)
        with self._lock:
            # Together: a doubt that begins now needs a thread of its own.
            self._replied, self._thread = time.monotonic(), None
            self._end_doubt()

    def close(self) -> None:
        """Let the thread end."""
        self._is_closed = True
        self._ask_now.set()
