"""Redis: jobs, events, rate limits, host budgets, counters and the Lua scripts they run."""

from __future__ import annotations
