"""gunicorn's log: its lines take the way and the format of all others."""

from __future__ import annotations

from typing import Any

from gunicorn.glogging import Logger


class RootLogger(Logger):
    """gunicorn's logger without handlers of its own: the root logger writes its lines."""

    def setup(self, cfg: Any) -> None:
        """Set up logging; gunicorn calls this at the start and after SIGHUP."""
        super().setup(cfg)
        self.error_log.handlers.clear()
        self.error_log.propagate = True
