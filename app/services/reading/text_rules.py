"""Rules of the admins for full texts: where the article of a site is, and what isn't part of it."""

from __future__ import annotations

import asyncio
from typing import Any

from app import clock, logs
from app.errors import NotFoundError
from app.gateways.reading.text_rules import TextRuleGateway
from app.models.accounts.actor import Actor, Permission
from app.models.feeds.fetched import FetchRequest, Target
from app.models.jobs.jobs import Job, Queue, Task
from app.models.reading.text_rules import TextRule, Trial
from app.ports import FetchStreamer, JobPort
from app.services.access import require_permission
from app.services.validation import check_id, check_text

log = logs.get(__name__)

ADDRESS_MAX, SELECTOR_MAX = 2048, 500
#: Seconds that a trial waits for its result.
WAIT = 5.0
#: Most pages that one job tries, if others are requested meanwhile.
TRIALS = 3


class TextRuleService:
    """Edits the rules of the admins for full texts, and tries them. Full texts found before stay."""

    def __init__(self, rules: TextRuleGateway, jobs: JobPort) -> None:
        self._rules, self._jobs = rules, jobs

    def list_rules(self, actor: Actor) -> list[TextRule]:
        """Return all rules by host."""
        require_permission(actor, Permission.ADMIN_SEE)
        return self._rules.rules.list_all()

    def add(self, actor: Actor, host: str, content: str, remove: str) -> TextRule:
        """Add a rule for a host and its subdomains.

        Args:
            content, remove: selectors, separated by commas.

        Raises:
            InvalidError: this isn't a host, or a selector isn't understood, or there is none.
            ExistsError: the host has a rule.
            TooLargeError: there is the maximum number of rules.
        """
        require_permission(actor, Permission.ADMIN_SEE)
        rule = self._rules.add(*_check_fields(host, content, remove))
        log.info("text_rule_added", by=actor.user_id, host=rule.host)
        return rule

    def update(
        self, actor: Actor, rule_id: int, host: str, content: str, remove: str, *, wait: float = WAIT
    ) -> TextRule:
        """Change a rule, and try it again on the page that it was tried on.

        Args, Raises: as in :meth:`add`. NotFoundError: there is no such rule.
        """
        require_permission(actor, Permission.ADMIN_SEE)
        rule_id = check_id(rule_id, "rule_id")
        before = self._rules.update(rule_id, *_check_fields(host, content, remove))
        rule = self._rules.get(rule_id)
        log.info("text_rule_changed", by=actor.user_id, host=rule.host)
        if before.trial is None or before.host != rule.host:
            return rule
        return self.request_trial(actor, rule_id, before.trial.address, wait=wait)

    def delete(self, actor: Actor, rule_id: int) -> None:
        """Delete a rule.

        Raises:
            NotFoundError: there is no such rule.
        """
        require_permission(actor, Permission.ADMIN_SEE)
        rule = self._rules.get(check_id(rule_id, "rule_id"))
        self._rules.rules.remove(rule.id)
        log.info("text_rule_removed", by=actor.user_id, host=rule.host)

    def request_trial(self, actor: Actor, rule_id: int, address: str, *, wait: float = WAIT) -> TextRule:
        """Try a rule on a page; return it with the result, if there is one in time.

        Raises:
            NotFoundError: there is no such rule.
            InvalidError: the address can't be fetched.
        """
        require_permission(actor, Permission.ADMIN_SEE)
        rule = self._rules.get(check_id(rule_id, "rule_id"))
        address = check_text(address, "address", limit=ADDRESS_MAX, empty=True)
        trial = Trial(self._rules.check_address(address, "address"), clock.now())
        self._rules.rules.store_trial(rule.id, trial)
        ticket = self._jobs.enqueue(Job(Task.TRY_TEXT, {"rule_id": rule.id}, Queue.ARTICLES))
        next(iter(self._jobs.await_many([ticket], wait)), None)
        return self._rules.get(rule.id)

    async def run(self, rule_id: int, fetcher: FetchStreamer) -> dict[str, Any]:
        """Try a rule on its page in the worker; safe to run twice.

        If another page was requested meanwhile, it is tried next.
        """
        words = 0
        for _ in range(TRIALS):
            try:
                rule = await asyncio.to_thread(self._rules.get, rule_id)
            except NotFoundError:
                return {"words": 0}
            trial, found = rule.trial, None
            if trial is None or trial.is_over:
                return {"words": trial.words if trial else 0}
            async for page in fetcher.stream_fetches([FetchRequest(trial.address, target=Target.PAGE)]):
                found = page
            words = (await asyncio.to_thread(self._rules.try_page, rule, trial, found, clock.now())).words
            log.info("text_rule_tried", host=rule.host, words=words)
        return {"words": words}


def _check_fields(host: str, content: str, remove: str) -> tuple[str, str, str]:
    return (
        check_text(host, "host", limit=ADDRESS_MAX, empty=True),
        check_text(content, "content", limit=SELECTOR_MAX, empty=True),
        check_text(remove, "remove", limit=SELECTOR_MAX, empty=True),
    )
