from __future__ import annotations

import pytest

from app.feeds.fetch.freshness import LONGEST, read_max_age

DATE = "Fri, 20 Nov 2026 10:00:00 GMT"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"cache-control": "public, max-age=900"}, 900),
        ({"cache-control": 'max-age="60"'}, 60),
        ({"cache-control": "MAX-AGE=60, must-revalidate"}, 60),
        ({"cache-control": "s-maxage=60"}, None),
        ({"cache-control": "no-cache"}, 0),
        ({"cache-control": "max-age=-1"}, None),
        ({"cache-control": "max-age=" + "9" * 400}, LONGEST),
        ({"expires": "Fri, 20 Nov 2026 10:30:00 GMT", "date": DATE}, 1800),
        ({"expires": "Fri, 20 Nov 2026 09:30:00 GMT", "date": DATE}, 0),
        ({"expires": "0", "date": DATE}, None),
        ({"expires": "Fri, 20 Nov 99999999999999 10:30:00 GMT", "date": DATE}, None),
        ({"expires": "Fri, 20 Nov 2026 10:30:00 GMT"}, None),
        ({"cache-control": "max-age=5", "expires": "Fri, 20 Nov 2026 10:30:00 GMT", "date": DATE}, 5),
    ],
)
def test_max_age_reads_cache_control_then_expires(headers: dict[str, str], seconds: int | None) -> None:
    assert read_max_age(headers) == seconds
