"""Translation of driver errors into Eventr's errors."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar

from pymongo.errors import (
    ConnectionFailure,
    ExecutionTimeout,
    OperationFailure,
    PyMongoError,
    WTimeoutError,
)

from app.errors import NoSpaceError, StoreError

P = ParamSpec("P")
T = TypeVar("T")

#: How MongoDB reports a full disk: by its own code, or by the words of the system.
_OUT_OF_DISK_SPACE, _SAYS = 14031, "No space left on device"
#: Temporary errors of the store: the same call may work a moment later.
UNAVAILABLE: tuple[type[PyMongoError], ...] = (ConnectionFailure, ExecutionTimeout, WTimeoutError)


class _Cell(Protocol):
    """What this module calls of a cell's store."""

    def make_error(self, error: PyMongoError) -> StoreError: ...

    def note_success(self) -> None: ...


class _Current(threading.local):
    #: The cell that the running call of a mapper has chosen; None: the home store.
    cell: _Cell | None = None

    def get(self) -> _Cell | None:
        return self.cell


_current = _Current()


def note_cell(cell: _Cell | None) -> None:
    """Record which cell the running call of a mapper uses, for its errors."""
    _current.cell = cell


def is_disk_full(error: OperationFailure) -> bool:
    """Return whether MongoDB refused an operation because its disk is full.

    Most often it ends instead. It is then restarted until it can write again.
    """
    details = error.details or {}
    refusals = [details, *details.get("writeErrors", ())]
    return any(each.get("code") == _OUT_OF_DISK_SPACE or _SAYS in each.get("errmsg", "") for each in refusals)


def translate_errors(call: Callable[P, T]) -> Callable[P, T]:
    """Turn temporary errors of the store into :class:`app.errors.StoreError`, cause chained.

    Duplicate keys and programming errors pass through: mappers translate the first themselves, and the second
    must stay visible.
    """

    @functools.wraps(call)
    def call_translated(*args: P.args, **kwargs: P.kwargs) -> T:
        _current.cell = None
        try:
            result = call(*args, **kwargs)
        except UNAVAILABLE as e:
            if e.has_error_label("TransientTransactionError"):
                raise  # run_in_transaction retries, and translates the final error
            cell = _current.get()
            raise (StoreError() if cell is None else cell.make_error(e)) from e
        except OperationFailure as e:
            if is_disk_full(e):
                raise NoSpaceError from e
            raise
        if (chosen := _current.get()) is not None:
            chosen.note_success()
        return result

    return call_translated
