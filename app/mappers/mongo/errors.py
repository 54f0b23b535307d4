"""Translation of driver errors into Eventr's errors."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, ParamSpec, TypeVar, cast

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
    must stay visible. Of a generator, the errors of each step are translated.
    """
    if inspect.isgeneratorfunction(call):
        return cast(Callable[P, T], _translate_steps(call))

    @functools.wraps(call)
    def call_translated(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except PyMongoError as e:
            _raise_translated(e)

    return call_translated


def _translate_steps(call: Callable[P, Iterator[Any]]) -> Callable[P, Iterator[Any]]:
    @functools.wraps(call)
    def iterate_translated(*args: P.args, **kwargs: P.kwargs) -> Iterator[Any]:
        steps = call(*args, **kwargs)
        while True:
            try:
                step = next(steps)
            except StopIteration:
                return
            except PyMongoError as e:
                _raise_translated(e)
            yield step

    return iterate_translated


def _raise_translated(error: PyMongoError) -> NoReturn:
    if isinstance(error, UNAVAILABLE):
        if error.has_error_label("TransientTransactionError"):
            raise error  # run_in_transaction retries, and translates the final error
        cell = find_cell(error)
        raise (StoreError() if cell is None else cell.make_error(error)) from error
    if isinstance(error, OperationFailure) and is_disk_full(error):
        raise NoSpaceError from error
    raise error
