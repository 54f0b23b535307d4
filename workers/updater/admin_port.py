"""The admin port of the updater; without an event loop, the updater beats the pulse itself."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from app.bootstrap.services import Services
from app.config import Settings
from app.errors import StoreError
from app.monitoring.admin_port import AdminServer, Pulse

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric


@contextlib.contextmanager
def serve_admin_port(
    settings: Settings, services: Services, has_lease: Callable[[], bool]
) -> Iterator[Pulse]:
    """Serve the admin port while the block runs, if it is configured; yield the pulse.

    Args:
        settings: The settings.
        services: The services.
        has_lease: Returns whether this updater holds the lease.
    """
    pulse = Pulse()
    if not settings.metrics_listen:
        yield pulse
        return
    from app.monitoring import metrics  # 12 MB that only this needs

    async def find_missing() -> list[str]:
        return await asyncio.to_thread(services.readiness.find_missing)

    async def render_figures() -> bytes:
        held = [metrics.build_family("eventr_lease_held", int(has_lease()))]
        conflicts = await asyncio.to_thread(services.server_info.load_write_conflicts)
        if conflicts is not None:
            held.append(metrics.build_family("eventr_mongodb_write_conflicts_total", conflicts.total))
        with contextlib.suppress(StoreError):
            held += await asyncio.to_thread(_collect_cells, services)
        with contextlib.suppress(StoreError):  # then these figures are missing
            media = await asyncio.to_thread(services.media_cleaning.load_figures)
            return metrics.render(
                [
                    *metrics.collect_process_metrics("updater"),
                    *held,
                    metrics.build_family("eventr_media_bytes", _label(media.stored)),
                    metrics.build_family("eventr_media_problems", _label(media.problems)),
                ]
            )
        return metrics.render([*metrics.collect_process_metrics("updater"), *held])

    admin = AdminServer(settings, "updater", pulse, find_missing, render_figures)
    admin.start()
    try:
        yield pulse
    finally:
        admin.stop()


def _collect_cells(services: Services) -> list[Metric]:
    from app.monitoring import metrics

    if not services.cells.is_spread:
        return []
    return [
        metrics.build_family("eventr_cell_users", _label(services.moves.count_people())),
        metrics.build_family("eventr_moves", _label(services.moves.count_steps())),
    ]


def _label(values: Mapping[str, int]) -> dict[tuple[str, ...], float]:
    return {(kind,): float(value) for kind, value in values.items()}
