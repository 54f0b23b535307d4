"""How often a process looks for garbage."""

from __future__ import annotations

import gc


def settle() -> None:
    """Leave what was loaded alone when looking for garbage, and look seldom; every process does, once.

    What requests, transfers and entries leave behind lives for milliseconds and hardly ever has cycles:
    looking for it after each 700 new objects cost 2 to 9 % of a cold pull, in the web tier 10 ms and more in
    the middle of some request, and copied the pages that forked workers share.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
