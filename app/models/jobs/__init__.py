"""Data types and pure rules of jobs, queues, workers and their Redis keys."""

from __future__ import annotations
