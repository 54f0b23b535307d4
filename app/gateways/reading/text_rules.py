"""Rules of the admins for full texts: checked when they are stored, and tried on pages."""

from __future__ import annotations

import datetime as dt

from app.errors import FetchError, InvalidError, NotFoundError, TooLargeError
from app.feeds.fetch.address_policy import Policy
from app.feeds.html.article_selectors import check_selectors
from app.feeds.html.main_text import count_words, extract_main_text
from app.feeds.html.text import flatten_html
from app.mappers.reading.text_rules import TextRuleMapper
from app.models.feeds.fetched import Fetched
from app.models.feeds.hosts import parse_host
from app.models.reading.text_rules import TextRule, Trial

#: Characters of a text that a trial shows.
SHOWN = 1000


class TextRuleGateway:
    """Stores rules, and tries them.

    Args:
        limit: most rules.
    """

    def __init__(self, rules: TextRuleMapper, policy: Policy, *, limit: int) -> None:
        self.rules, self._policy, self._limit = rules, policy, limit

    def add(self, host: str, content: str, remove: str) -> TextRule:
        """Store a rule.

        Args:
            host: or an address of one of its pages.

        Raises:
            InvalidError: this isn't a host, or a selector isn't understood, or there is none.
            ExistsError: the host has a rule.
            TooLargeError: there is the maximum number of rules.
        """
        _check(content, remove)
        if len(self.rules.list_all()) >= self._limit:
            raise TooLargeError("There can be at most %(limit)s rules. Delete one first.", limit=self._limit)
        return self.rules.add(TextRule(0, self._check_host(host), content, remove))

    def update(self, rule_id: int, host: str, content: str, remove: str) -> TextRule:
        """Change a rule, and return it as it was; what its last trial found is forgotten.

        Raises:
            NotFoundError: there is no such rule.
            InvalidError, ExistsError: as in :meth:`add`.
        """
        _check(content, remove)
        before = self.rules.update(TextRule(rule_id, self._check_host(host), content, remove))
        if before is None:
            raise NotFoundError(rule_id=rule_id)
        return before

    def _check_host(self, host: str) -> str:
        url = self.check_address(host if "://" in host else f"https://{host}/", "host")
        return parse_host(url).removeprefix("www.")

    def check_address(self, address: str, field: str) -> str:
        """Return the checked address of a page.

        Raises:
            InvalidError: it can't be fetched.
        """
        try:
            return self._policy.check_url(address.strip()).url
        except FetchError as e:
            raise InvalidError("Enter a web address, such as https://example.org/.", field=field) from e

    def get(self, rule_id: int) -> TextRule:
        """Return a rule.

        Raises:
            NotFoundError: there is no such rule.
        """
        found = self.rules.find(rule_id)
        if found is None:
            raise NotFoundError(rule_id=rule_id)
        return found

    def try_page(self, rule: TextRule, trial: Trial, page: Fetched | None, now: dt.datetime) -> Trial:
        """Store and return what a rule finds on the page of a trial; None: the page wasn't fetched."""
        address = trial.address
        if page is None:
            found = Trial(address, now, is_over=True, error="busy")
        elif page.error is not None:
            found = Trial(address, now, is_over=True, error=page.error.word)
        else:
            text = extract_main_text(page.body or b"", page.url, page.content_type, rule=rule)
            found = Trial(
                address,
                now,
                is_over=True,
                found=text.is_by_rule,
                words=count_words(text.html),
                text=flatten_html(text.html)[:SHOWN],
            )
        self.rules.store_trial(rule.id, found, was=trial)
        return found


def _check(content: str, remove: str) -> None:
    if not content and not remove:
        raise InvalidError("Enter a selector.", field="content")
    check_selectors(content, "content")
    check_selectors(remove, "remove")
