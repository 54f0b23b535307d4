"""The manager's control socket: server, commands, actions, REPL and log tail."""

from __future__ import annotations
