"""Lazy attributes: parts that are built on first access, once for all threads of a process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):
    """A ``functools.cached_property`` that threads may share.

    Since Python 3.12 ``cached_property`` has no lock. Two threads that access it first would each get a
    part of their own, and sessions of one MongoDB client are invalid in another. The built part is stored in
    the instance's ``__dict__``.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._lock = threading.RLock()  # building a part may need other parts
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
