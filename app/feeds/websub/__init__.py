"""WebSub: subscribing to hubs, the hub for shared streams, publishing."""

from __future__ import annotations
