"""Builds the services of operations."""

from __future__ import annotations

from app import clock
from app.adapters.apprise import AppriseNotifier
from app.bootstrap.notifications import NotificationServices
from app.gateways.operations.cells import CellGateway
from app.gateways.operations.moves import MoveGateway
from app.monitoring.health import run_checks
from app.runtime.lazy import lazy
from app.services.operations.cells import CellService
from app.services.operations.dead_letters import DeadLetterService
from app.services.operations.feed_lists import FeedListService
from app.services.operations.hourly_report import ReportService
from app.services.operations.moves import MoveService
from app.services.operations.operations import OperationsService
from app.services.operations.readiness import Readiness
from app.services.operations.server_info import ServerInfoService


class OperationsServices(NotificationServices):
    """The services of operations."""

    @lazy
    def operations(self) -> OperationsService:
        """Queues, workers, throughput, dead tasks."""
        return OperationsService(self.engine)

    @lazy
    def dead_letters(self) -> DeadLetterService:
        """Delayed tasks that couldn't be queued."""
        return DeadLetterService(self.mappers.dead_letters, self.later)

    @lazy
    def feed_lists(self) -> FeedListService:
        """The health of all feeds."""
        return FeedListService(self.gateways.feed_lists, self.gateways.feeds, self.engine, self.jobs)

    @lazy
    def moves(self) -> MoveService:
        """Moves of people between cells."""
        return MoveService(self.mover, self.mappers.users, self.jobs)

    @lazy
    def mover(self) -> MoveGateway:
        """Moves a person between cells, step by step."""
        return MoveGateway(
            self.cells,
            self.mappers.moves,
            announce=self.place_epoch.raise_epoch,
            settle=lambda user_id, cells: self.gateways.outbox.request_recount(user_id, cells, clock.now()),
        )

    @lazy
    def cell_upkeep(self) -> CellService:
        """Cells: people, shares of new people, numbers that cross stores."""
        return CellService(
            CellGateway(self.cells, self.mover),
            self.gateways.outbox,
            lambda: self.notifier.deliver_waiting(),  # built when it is needed
            self.gateways.saved_pages,
            follows=self.gateways.follows,
            events=self.events,
        )

    @lazy
    def server_info(self) -> ServerInfoService:
        """Settings, versions, checks."""
        return ServerInfoService(self.settings, run_checks, self.mappers.write_conflicts)

    @lazy
    def report(self) -> ReportService:
        """The hourly report."""
        return ReportService(self.figures, AppriseNotifier(self.settings), self.settings)

    @lazy
    def readiness(self) -> Readiness:
        """Readiness: whether the stores respond."""
        return Readiness({"mongodb": self.store.ping, "redis": self.jobs.ping})
