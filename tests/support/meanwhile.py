"""Another change comes while one is on its way: always at the same place, without threads."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import Any

import pytest


def after(
    patch: pytest.MonkeyPatch, thing: object, method: str, act: Callable[[], object], call: int = 1
) -> None:
    """Do something once, when that call of a method has its answer, which its caller does not have yet.

    It is done as by another process: it neither sees nor changes the identity map of the caller.
    """
    real, calls = getattr(thing, method), list[None]()

    def late(*args: Any, **kwargs: Any) -> Any:
        found = real(*args, **kwargs)
        calls.append(None)
        if len(calls) == call:
            Context().run(act)
        return found

    patch.setattr(thing, method, late)
