"""Modules that the fork server loads once for all workers, which fork in 20 ms and share their memory."""

from __future__ import annotations

import importlib

from app.runtime import gc

gc.collect_rarely()
importlib.import_module("workers.main")
# Here and not in each worker: the scan takes 30 ms and writes to every page.
gc.freeze_loaded()
