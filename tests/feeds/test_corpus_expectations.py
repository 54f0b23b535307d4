"""Every expectation that other projects' suites have of the corpus: asserted, or listed with a reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from app.errors import ParseError
from app.feeds.parse import parse
from app.models.feeds.parsed import ParsedFeed
from tests.feeds.expectations import STYLES, UNREAD, URL, Claim, Reason, reasons
from tests.support.corpus import Row, rows

FEEDS = tuple(row for row in rows("atom", "rss", "rdf", "json") if row.expect)
ASSERTED = tuple(row for row in FEEDS if row.data["expect"]["style"] in (*STYLES, "parse-error"))
VALIDATED = tuple(row for row in FEEDS if row.data["expect"]["style"] == "feedvalidator-event")


def _claims(row: Row) -> Iterator[Claim]:
    style = row.data["expect"]["style"]
    feed: ParsedFeed | None = None
    word = "parsed"
    try:
        feed = parse(row.read(), url=row.data.get("base_url") or URL)
    except ParseError as e:
        word = e.word
    fails = style == "parse-error" or (
        style == "asserts" and any(claim["op"] == "fails" for claim in row.data["expect"]["asserts"])
    )
    if fails or feed is None:
        yield Claim(row, word, feed is None, fails)
    else:
        yield from STYLES[style](row, feed)


def _unexplained(claims: list[Claim], used: Counter[Reason]) -> Iterator[Claim]:
    for claim in claims:
        if claim.ours is not UNREAD and claim.holds:
            continue
        reason = next((r for r in reasons() if r.explains(claim)), None)
        if reason is None:
            yield claim
        else:
            used[reason] += 1


def test_every_expectation_holds_or_has_a_reason() -> None:
    used: Counter[Reason] = Counter()
    claims = [claim for row in ASSERTED for claim in _claims(row)]
    wrong = [str(claim) for claim in _unexplained(claims, used)]
    assert not wrong, "\n".join(wrong)
    idle = [f"{r.path or r.rule}: {r.why}" for r in reasons() if not used[r]]
    assert not idle, "listed, but explains nothing:\n" + "\n".join(idle)
    held = sum(claim.ours is not UNREAD and claim.holds for claim in claims)
    assert held >= 1400, "claims vanished from the corpus or became unread"


def test_nothing_genuine_is_excused_by_path_without_a_field() -> None:
    """A reason for a whole row would hide what breaks in it tomorrow."""
    assert [r for r in reasons() if r.path and not r.fields] == []


def test_every_style_of_expectation_is_known() -> None:
    styles = {row.data["expect"]["style"] for row in FEEDS}
    assert styles == {*STYLES, "feedvalidator-event", "parse-error"}


def test_validator_cases_parse_or_are_refused_by_name() -> None:
    """Eventr is no validator: what a case expects of one is not its business, but reading it is.

    A document that a validator finds without error and that is a feed has to parse; one with errors may
    also be refused, by a ParseError.
    """
    failed = []
    for row in VALIDATED:
        try:
            parse(row.read(), url=URL)
        except ParseError as e:
            if row.data["expect"]["expr"].startswith("!") and row.path not in NO_FEED:
                failed.append(f"{row.path}: {e.word} ({e.detail})")
    assert not failed, "\n".join(failed)


#: Cases without the error they test for, but with nothing in them to read.
NO_FEED = {"suites/feedvalidator/rss/must/doctype_not_entity.xml": "an rss element with nothing inside"}


@pytest.mark.parametrize("path", sorted(NO_FEED))
def test_what_is_listed_as_no_feed_is_refused(path: str) -> None:
    row = next(row for row in VALIDATED if row.path == path)
    with pytest.raises(ParseError) as caught:
        parse(row.read(), url=URL)
    assert caught.value.word == "broken_feed"
