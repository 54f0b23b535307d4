"""Translation of driver errors into Eventr's errors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from pymongo.errors import ConnectionFailure, ExecutionTimeout, PyMongoError, WTimeoutError

from app.errors import StoreError

P = ParamSpec("P")
T = TypeVar("T")

#: Temporary errors of the store: the same call may work a moment later.
UNAVAILABLE: tuple[type[PyMongoError], ...] = (ConnectionFailure, ExecutionTimeout, WTimeoutError)


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
            raise StoreError from e

    return call_translated
