"""Publishers that do what publishers do: each article is new once, however its feed presents it."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.feeds.identity import Diff, diff_feed
from tests.feeds.publisher import DAY, Guids, Publisher, Series

EVENTS = (
    *(Publisher.edit_title, Publisher.edit_text, Publisher.edit_link, Publisher.edit_date),
    *(Publisher.reissue, Publisher.reissue_all, Publisher.count_links, Publisher.repeat_guid),
    *(Publisher.shrink, Publisher.grow, Publisher.reorder, Publisher.use_https, Publisher.move),
    *(Publisher.withdraw, Publisher.restore, Publisher.change_template, Publisher.rest),
)
#: What happens between two fetches: an event, where in the list, and how many articles come after it.
STEPS = st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 30), st.integers(0, 2)), max_size=12)


class Reader:
    """Follows a feed, and notes which articles it was told of."""

    def __init__(self) -> None:
        self.diff = Diff((), (), b"")
        self.told: list[int] = []
        self.stored: dict[bytes, int] = {}

    def fetch(self, publisher: Publisher) -> None:
        since = publisher.now - DAY if publisher.fetches else None
        last = self.diff
        found = diff_feed(publisher.fetch(), last.seen, volatile=last.volatile, guids=last.guids, since=since)
        for entry in found.new:
            number = int(entry.categories[0])
            # The store knows entries that left a document by their guids.
            if self.stored.setdefault(found.get_hash(entry), number) != number or number not in self.told:
                self.told.append(number)
        for entry in found.changed:
            assert self.stored[found.get_hash(entry)] == int(entry.categories[0]), "another one's text"
        self.diff = found


@settings(max_examples=300)
@example(  # an article keeps the guid of another one that has left the document
    Guids.OWN,
    10,
    [
        (Publisher.reissue, 0, 0),
        (Publisher.repeat_guid, 0, 1),
        *[(Publisher.edit_title, 0, 2)] * 2,
        (Publisher.reorder, 0, 2),
        (Publisher.edit_title, 0, 2),
    ],
)
@given(st.sampled_from(Guids), st.integers(8, 14), STEPS)
def test_each_article_is_new_once(guids: Guids, window: int, steps: list) -> None:  # type: ignore[type-arg]
    publisher, reader = Publisher(guids, window), Reader()
    reader.fetch(publisher)
    for event, at, more in steps:
        event(publisher, at)
        publisher.publish(more)
        reader.fetch(publisher)
        assert sorted(reader.told) == sorted(publisher.listed_ever)


STRIPS = st.lists(
    st.tuples(st.sampled_from((Series.replace, Series.correct, Series.rest)), st.integers(0, 1))
)


@settings(max_examples=100)
@given(st.sampled_from((Guids.LINK, Guids.NONE, Guids.EMPTY)), st.integers(0, 3), STRIPS)
def test_each_strip_behind_one_link_is_new_once(guids: Guids, pinned: int, steps: list) -> None:  # type: ignore[type-arg]
    publisher, reader = Series(guids, pinned), Reader()
    reader.fetch(publisher)
    for event, at in steps:
        event(publisher, at)
        reader.fetch(publisher)
        assert sorted(reader.told) == sorted(publisher.listed_ever)
    assert len(reader.stored) == len(publisher.listed_ever), "each is stored under an identity of its own"
