"""What the fork server loads, once for all workers: they are forked in 20 ms and share these pages."""

from __future__ import annotations

import importlib

from app.runtime import gc

gc.collect_rarely()
importlib.import_module("workers.main")
# Here and not in each worker: to look through all of it takes 30 ms and writes to every page of it.
gc.freeze_loaded()
