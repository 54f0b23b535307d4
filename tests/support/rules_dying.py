"""A process that tries rules and is killed before or after a certain write."""

from __future__ import annotations

import multiprocessing
import os
import signal
from typing import Any

from app import clock
from app.bootstrap import services as bootstrap
from app.config import Settings
from app.gateways.reading.entries import EntryGateway
from app.gateways.reading.rule_runs import RuleRunGateway
from app.gateways.reading.rules import RuleGateway
from app.gateways.reading.tags import TagGateway
from app.mappers.reading.targets import TargetMapper
from app.mappers.subscriptions.subscriptions import SubscriptionMapper

_OWNERS: dict[str, type] = {
    "apply_rules": SubscriptionMapper,
    "pass_ruled": SubscriptionMapper,
    "add_hits": RuleGateway,
    "add_deliveries": TargetMapper,
    "tag_many": TagGateway,
    "add_part": RuleRunGateway,
    "remove_part": RuleRunGateway,
    "set_place": RuleRunGateway,
    "set_many_starred": EntryGateway,
    "add_rule_marks": SubscriptionMapper,
    "remove_rule_marks": SubscriptionMapper,
}
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__])


def try_and_die(settings: Settings, method: str, number: int, *, is_after: bool) -> bool:
    """Try rules in another process until the given call of a method; return whether that killed it."""
    return _watch(settings, method, number, None, is_after)


def run_and_die(settings: Settings, method: str, user_id: int, run_id: str, *, is_after: bool) -> bool:
    """Continue a run in another process until the first call of a method; return whether that killed it."""
    return _watch(settings, method, 1, (user_id, run_id), is_after)


def _watch(*args: Any) -> bool:
    process = _CONTEXT.Process(target=_run, args=args)
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def _run(settings: Settings, method: str, number: int, run: tuple[int, str] | None, is_after: bool) -> None:
    owner, left = _OWNERS[method], number
    real = getattr(owner, method)

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0 and not is_after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*args, **kwargs)
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, method, call)
    services = bootstrap.build(settings)
    if run is None:
        services.rule_runner.run(clock.now(), seconds=30)
    else:
        services.rule_runs.continue_run(*run, seconds=30)
    services.close()
