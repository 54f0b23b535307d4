"""Dates as feeds write them."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.feeds.parse.dates import clamp, parse_date, parse_epoch

NOW = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC)


def utc(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.UTC)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("Thu, 22 Dec 2016 13:09:51 +0000", utc(2016, 12, 22, 13, 9, 51)),
        ("Thu, 22 Dec 2016 13:09:51 GMT", utc(2016, 12, 22, 13, 9, 51)),
        ("Thu, 22 Dec 2016 13:09:51 EST", utc(2016, 12, 22, 18, 9, 51)),
        ("Fri, 17 May 2019 06:00:00 BST", utc(2019, 5, 17, 5)),
        ("22 Dec 16 13:09 -0530", utc(2016, 12, 22, 18, 39)),
        ("22 Dec 99 13:09 UT", utc(1999, 12, 22, 13, 9)),
        ("Mon, 22 Dec 2016 13:09:51 Z", utc(2016, 12, 22, 13, 9, 51)),  # it was a Thursday
        ("Thu, 22 December 2016 13:09:51+0900", utc(2016, 12, 22, 4, 9, 51)),
        ("Thu Dec 22 13:09:51 2016", utc(2016, 12, 22, 13, 9, 51)),
        ("Dec 22, 2016 1:09 pm", utc(2016, 12, 22, 13, 9)),
        ("Thu, 22 Dec 2016", utc(2016, 12, 22)),
        ("Mi, 04 Jan 2017 17:36:24 +0000", utc(2017, 1, 4, 17, 36, 24)),
        ("Thu, 22 Dec 2016 24:00:00 GMT", utc(2016, 12, 23)),
        ("Sat, 31 Dec 2016 23:59:60 GMT", utc(2017, 1, 1)),
        ("2016-12-22T13:09:51Z", utc(2016, 12, 22, 13, 9, 51)),
        ("2016-12-22T13:09:51.123+02:00", utc(2016, 12, 22, 11, 9, 51, 123000)),
        ("2016-12-22 13:09:51 +0200", utc(2016, 12, 22, 11, 9, 51)),
        ("2016-12-22T13:09", utc(2016, 12, 22, 13, 9)),
        ("2016-12-22T24:00:00Z", utc(2016, 12, 23)),
        ("2016-12-22", utc(2016, 12, 22)),
        ("2016-12", utc(2016, 12, 1)),
        ("20161222", utc(2016, 12, 22)),
        ("2016", utc(2016, 1, 1)),
        ("1482412191", utc(2016, 12, 22, 13, 9, 51)),
        ("1482412191000", utc(2016, 12, 22, 13, 9, 51)),
        ("2016/12/22 13:09:51", utc(2016, 12, 22, 13, 9, 51)),
        ("2016年12月22日 13:09", utc(2016, 12, 22, 13, 9)),
        ("2016년 12월 2일", utc(2016, 12, 2)),
        ("2016.12.22. 13:09", utc(2016, 12, 22, 13, 9)),
        ("22.12.2016 13:09", utc(2016, 12, 22, 13, 9)),
        ("2.1.2016, 13:09:51 +0100", utc(2016, 1, 2, 12, 9, 51)),
        ("13:09 22.12.2016", utc(2016, 12, 22, 13, 9)),
        ("22/12/2016 13:09", utc(2016, 12, 22, 13, 9)),
        ("12/22/2016 1:09 PM", utc(2016, 12, 22, 13, 9)),
        ("22-12-2016", utc(2016, 12, 22)),
        ("Do, 22 Dez 2016 13:09:51 +0100", utc(2016, 12, 22, 12, 9, 51)),
        ("22. März 2016 um 13:09 Uhr", utc(2016, 3, 22, 13, 9)),
        ("jeu., 22 déc. 2016 13:09:51 +0100", utc(2016, 12, 22, 12, 9, 51)),
        ("jeudi 22 août 2016", utc(2016, 8, 22)),
        ("22 de diciembre de 2016", utc(2016, 12, 22)),
        ("mar, 12 abr 2016 10:00:00 GMT", utc(2016, 4, 12, 10)),
        ("Mar 12, 2016 10:00 GMT", utc(2016, 3, 12, 10)),
        ("qui, 22 set 2016 13:09:51 -0300", utc(2016, 9, 22, 16, 9, 51)),
        ("22 giugno 2016", utc(2016, 6, 22)),
        ("Чт, 22 Дек 2016 13:09:51 +0300", utc(2016, 12, 22, 10, 9, 51)),
        ("22 декабря 2016 г. 13:09", utc(2016, 12, 22, 13, 9)),
        ("22 października 2016", utc(2016, 10, 22)),
        ("2018-04-04 16:00:00 +0000 UTC", utc(2018, 4, 4, 16)),
        ("2024-05-01 16:00:00.123456789 +0200 CEST m=+0.010203", utc(2024, 5, 1, 14)),
        ("2024-05-01 10:00 PM", utc(2024, 5, 1, 22)),
        ("2024-05-01 12:30:00 am +0100", utc(2024, 4, 30, 23, 30)),
        ("2024-05-01 10:00:00 (UTC)", utc(2024, 5, 1, 10)),
        ("2024-05-01 10:00 AMT", None),
        ("Πεμ, 22 Δεκ 2016 13:09:51 GMT", utc(2016, 12, 22, 13, 9, 51)),
    ],
)
def test_dates_of_the_wild(text: str, when: dt.datetime | None) -> None:
    assert parse_date(text) == when


@pytest.mark.parametrize(
    "text",
    [
        None, "", " ", "yesterday", "0000-00-00T00:00:00Z", "0000-01-01", "-1", "1e400", "NaN", "9" * 20,
        "Thu, 01 Jan 0000 00:00:00 GMT", "0001-01-01T00:00:00+10:00", "9999-12-31T23:59:59-10:00",
        "²²²²-01-01", "٢٠١٦", "x" * 100_000, "Thu, 22 Dec 2016 25:00:00 GMT", "22 Foo 2016", "12345",
        "01/02/2016", "1-2-2016", "-0001-11-30T00:00:00+00:00", "2016/13/45", "32.12.2016", "1.2.3", "10:00",
        "2016-W51-4",
    ],
)  # fmt: skip
def test_X11_what_is_no_date_is_none(text: str | None) -> None:
    assert parse_date(text) is None


@pytest.mark.parametrize("text", ["Mon, 1 Jan 2020 10:00:00 +99:99", "2020-01-01T00:00:00+99:99"])
def test_X11_an_impossible_zone_does_not_raise(text: str) -> None:
    when = parse_date(text)
    assert when is None or when.utcoffset() == dt.timedelta(0)


@pytest.mark.parametrize(
    ("claimed", "when"),
    [
        (None, None),
        (utc(1, 1, 1), utc(1990, 1, 1)),
        (utc(1989, 12, 31), utc(1990, 1, 1)),
        (utc(2016, 12, 22), utc(2016, 12, 22)),
        (NOW + dt.timedelta(hours=23), NOW + dt.timedelta(hours=23)),
        (NOW + dt.timedelta(days=2), NOW + dt.timedelta(days=1)),
        (utc(9999, 12, 31), NOW + dt.timedelta(days=1)),
    ],
)
def test_X11_claimed_times_are_clamped(claimed: dt.datetime | None, when: dt.datetime | None) -> None:
    assert clamp(claimed, NOW) == when


@pytest.mark.parametrize("seconds", [1e400, -1e400, 1e18, -1e18, float("nan")])
def test_X11_an_impossible_timestamp_is_none(seconds: float) -> None:
    assert parse_epoch(seconds) is None


_PART = st.one_of(
    st.sampled_from(
        ["Thu,", "22", "Dec", "2016", "13:09:51", "+0000", "EST", "T", "Z", "-", ":", "0000", "am", "週"]
    ),
    st.integers(-(10**12), 10**12).map(str),
    st.text(max_size=6),
)


@given(st.lists(_PART, max_size=8).map(" ".join) | st.lists(_PART, max_size=8).map("".join))
def test_X11_no_text_raises(text: str) -> None:
    when = parse_date(text)
    assert when is None or when.tzinfo == dt.UTC
