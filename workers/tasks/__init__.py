"""The tasks that workers run, one module per subject."""

from __future__ import annotations
