"""Redis adapters: jobs, events, rate limits, host budgets, counters and their Lua scripts."""

from __future__ import annotations
