"""``python -m app``: the command line where its script is not on PATH, and for child processes."""

from __future__ import annotations

from app.cli import main

main()
