"""Interfaces of other readers' servers, as steps: each step is a request, and takes what was fetched."""

from __future__ import annotations
