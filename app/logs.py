"""Structured logs: a fixed event word and fields, never a composed sentence.

    log = logs.get(__name__)
    log.info("feed_pulled", feed_id=17, new=3, ms=41)

Ids of a whole request or job are bound once with :func:`bind` and appear in each line.
"""

from __future__ import annotations

import contextvars
import json
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from app import clock

_bound: contextvars.ContextVar[dict[str, Any] | None] = contextvars.ContextVar("log_fields", default=None)


class Logger:
    """A standard logger with an event word and fields."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def _log(self, level: int, event: str, fields: dict[str, Any], exc_info: bool = False) -> None:
        if self._logger.isEnabledFor(level):
            extra = {"fields": {**(_bound.get() or {}), **fields}}
            self._logger.log(level, event, extra=extra, exc_info=exc_info)

    def debug(self, event: str, **fields: Any) -> None:
        self._log(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        self._log(logging.INFO, event, fields)

    def warning(self, event: str, *, exc_info: bool = False, **fields: Any) -> None:
        self._log(logging.WARNING, event, fields, exc_info)

    def error(self, event: str, *, exc_info: bool = False, **fields: Any) -> None:
        self._log(logging.ERROR, event, fields, exc_info)


def get(name: str) -> Logger:
    """Return the logger of a module."""
    return Logger(logging.getLogger(name))


@contextmanager
def bind(**fields: Any) -> Iterator[None]:
    """Add fields to every line logged inside the block, in this thread or task."""
    token = _bound.set({**(_bound.get() or {}), **fields})
    try:
        yield
    finally:
        _bound.reset(token)


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = " ".join(f"{k}={_value(v)}" for k, v in getattr(record, "fields", {}).items())
        stamp = clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = f"{stamp} {record.levelname.lower():7} {record.name} {record.getMessage()} {fields}".rstrip()
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": clock.now().isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def _value(value: Any) -> str:
    # Quoted where needed, so that a foreign value can never forge a second line or field (W20).
    text = str(value)
    plain = text.isprintable() and not any(c in text for c in ' "=')
    return text if plain and text else json.dumps(text, ensure_ascii=False)


def configure(level: str, style: str) -> None:
    """Send all logs of this process to stderr; called once by each process at its start.

    Args:
        level: ``debug``, ``info``, ``warning`` or ``error``.
        style: ``text`` or ``json``.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if style == "json" else _Text())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # At debug level the driver logs whole commands: password hashes, sessions, reading habits (V14).
    logging.getLogger("pymongo").setLevel(logging.WARNING)
    if style == "json":
        _log_what_is_printed()


def is_json() -> bool:
    """Return whether this process writes its log as JSON, so that errors must be logged and not printed."""
    return any(isinstance(handler.formatter, _Json) for handler in logging.getLogger().handlers)


def _log_what_is_printed() -> None:
    """Log warnings and uncaught errors, which the interpreter would print in its own format."""
    logging.captureWarnings(True)
    sys.excepthook = _log_uncaught
    threading.excepthook = lambda end: _log_uncaught(end.exc_type, end.exc_value, end.exc_traceback)
    sys.unraisablehook = lambda end: _log_uncaught(end.exc_type, end.exc_value, end.exc_traceback)


def _log_uncaught(
    kind: type[BaseException], error: BaseException | None, trace: TracebackType | None
) -> None:
    if issubclass(kind, SystemExit):
        return  # the end of a thread
    logging.getLogger(__name__).critical("uncaught_error", exc_info=(kind, error or kind(), trace))
