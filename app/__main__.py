"""``python -m app``: the command line when its script isn't on PATH, and for child processes."""

from __future__ import annotations

from app.cli import main

main()
