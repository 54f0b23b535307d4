"""A part that is made when it is first asked for, once for all threads of a process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):
    """``functools.cached_property`` that threads may share.

    Since Python 3.12 that one has no lock: of two threads that ask first each would get a part of its
    own, and sessions of one connection to MongoDB mean nothing to another. What was made lies in the
    instance, which is looked at before this.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._lock = threading.RLock()  # parts are made out of parts
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> lazy[T]: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...
    def __get__(self, instance: object | None, owner: type[Any] | None = None) -> lazy[T] | T:
        if instance is None:
            return self
        parts = instance.__dict__
        with self._lock:
            if self._name not in parts:
                parts[self._name] = self._make(instance)
            part: T = parts[self._name]
        return part
