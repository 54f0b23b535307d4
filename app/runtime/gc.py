"""How often a process looks for garbage."""

from __future__ import annotations

import gc


def collect_rarely() -> None:
    """Look for garbage seldom; every process does from its first line on.

    Nothing of what is loaded is garbage: looking for it was a sixth of the time that loading takes. And what
    requests, transfers and entries leave behind lives for milliseconds and hardly ever has cycles: looking
    for it after each 700 new objects cost 2 to 9 % of a cold pull, and in the web tier 10 ms and more in the
    middle of some request.
    """
    gc.set_threshold(20_000, 20, 20)


def freeze_loaded() -> None:
    """Leave what was loaded alone from now on, and look seldom: forked workers share those pages, too."""
    gc.collect()
    gc.freeze()
    collect_rarely()
