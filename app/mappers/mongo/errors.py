"""Driver errors become errors of ours, in this one place."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from pymongo.errors import ConnectionFailure, ExecutionTimeout, PyMongoError, WTimeoutError

from app.errors import StoreError

P = ParamSpec("P")
T = TypeVar("T")

#: Passing faults of the store: the same call may work a moment later.
UNAVAILABLE: tuple[type[PyMongoError], ...] = (ConnectionFailure, ExecutionTimeout, WTimeoutError)


def translate_errors(call: Callable[P, T]) -> Callable[P, T]:
    """Turn "the store does not answer" into :class:`app.errors.StoreError`, cause chained.

    Duplicate keys and programming errors pass: the first mean a business fact that the mapper names
    itself, the second must be seen as what they are.
    """

    @functools.wraps(call)
    def call_translated(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except UNAVAILABLE as e:
            if e.has_error_label("TransientTransactionError"):
                raise  # the transaction around this call runs again; it translates what stays
            raise StoreError from e

    return call_translated
