"""MongoDB access for notifications and push devices."""

from __future__ import annotations
