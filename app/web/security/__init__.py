"""CSRF tokens, sessions, host checks, security headers, safe redirects."""

from __future__ import annotations
