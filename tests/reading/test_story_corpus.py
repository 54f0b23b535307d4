"""Stories in the corpus of real feeds: which groups are found, and that all of them are one article each."""

from __future__ import annotations

import functools
import itertools

from app.errors import ParseError
from app.feeds.fingerprints import hash_linked_page, hash_text
from app.feeds.html.text import extract_clean_text
from app.feeds.parse import parse
from app.gateways.reading.stories import Candidates, join_story
from app.models.feeds.parsed import ParsedEntry
from app.models.reading.entry import EntryKey
from app.models.reading.story import Fingerprint, choose_story
from tests.support.corpus import genuine_feeds, root

#: One article under two titles, as a person has checked.
OTHER_TITLES = {"diff": "Concerns over security software"}


@functools.cache
def find_groups() -> list[list[ParsedEntry]]:
    """Return the groups of more than one entry, over all genuine feeds of the corpus."""
    entries: dict[int, ParsedEntry] = {}
    numbers, stories = itertools.count(1), Candidates()
    for feed_id, row in enumerate(genuine_feeds(), 1):
        try:
            feed = parse((root() / row.path).read_bytes(), url=f"https://feed{feed_id}.example/")
        except ParseError:
            continue
        for entry in feed.entries:
            at = entry.published or entry.updated
            key = EntryKey(next(numbers), feed_id, 1, round(at.timestamp() * 1000) if at else 0)
            text = hash_text(extract_clean_text(entry.content or entry.summary))
            new = Fingerprint(key, hash_linked_page(entry.url), text, (feed.language or "")[:2].lower())
            entries[key.id] = entry
            stories.add(join_story(choose_story(new, stories.find(new)), new))
    return [
        [entries[member.id] for member in one.members] for one in stories.list_all() if len(one.members) > 1
    ]


def test_groups_of_the_corpus_are_found() -> None:
    groups = find_groups()
    assert len(groups) == 247
    by_text = [g for g in groups if len({hash_linked_page(one.url) for one in g}) > 1]
    assert len(by_text) == 27, "by their texts, under several addresses"


def test_each_group_of_the_corpus_is_one_article() -> None:
    for group in find_groups():
        titles = {OTHER_TITLES.get(one.title, one.title).casefold() for one in group}
        # One planet puts the author before the title, and one file was made longer for a test.
        assert len({title.removeprefix("simon willison: ")[:40] for title in titles}) == 1, titles
