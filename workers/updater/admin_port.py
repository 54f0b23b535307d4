"""The admin port of the updater, which has no event loop: it beats the pulse itself."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator

from app.bootstrap.services import Services
from app.config import Settings
from app.monitoring.admin_port import Admin, Pulse


@contextlib.contextmanager
def serving(settings: Settings, services: Services, holds: Callable[[], bool]) -> Iterator[Pulse]:
    """Serve for the time of a block, if it is on; yields the pulse.

    Args:
        holds: whether this updater is the one that works.
    """
    pulse = Pulse()
    if not settings.metrics_listen:
        yield pulse
        return
    from app.monitoring import metrics  # 12 MB that only this needs

    async def missing() -> list[str]:
        return await asyncio.to_thread(services.readiness.missing)

    async def figures() -> bytes:
        held = metrics.family("eventr_lease_held", int(holds()))
        return metrics.render([*metrics.own("updater"), held])

    admin = Admin(settings, "updater", pulse, missing, figures)
    admin.start()
    try:
        yield pulse
    finally:
        admin.stop()
