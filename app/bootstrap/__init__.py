"""The composition root: builds stores, gateways and services for every process."""

from __future__ import annotations
