"""Web Push messages: encryption, signatures and sending."""

from __future__ import annotations
