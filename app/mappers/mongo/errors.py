"""Translation of driver errors into Eventr's errors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from pymongo.errors import (
    ConnectionFailure,
    ExecutionTimeout,
    OperationFailure,
    PyMongoError,
    WTimeoutError,
)

from app.errors import NoSpaceError, StoreError
from app.mappers.mongo.cell_client import find_cell

P = ParamSpec("P")
T = TypeVar("T")

#: How MongoDB reports a full disk: by its own code, or by the words of the system.
_OUT_OF_DISK_SPACE, _SAYS = 14031, "No space left on device"
#: Temporary errors of the store: the same call may work a moment later.
UNAVAILABLE: tuple[type[PyMongoError], ...] = (ConnectionFailure, ExecutionTimeout, WTimeoutError)


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
        try:
            return call(*args, **kwargs)
        except UNAVAILABLE as e:
            if e.has_error_label("TransientTransactionError"):
                raise  # run_in_transaction retries, and translates the final error
            cell = find_cell(e)
            raise (StoreError() if cell is None else cell.make_error(e)) from e
        except OperationFailure as e:
            if is_disk_full(e):
                raise NoSpaceError from e
            raise

    return call_translated
