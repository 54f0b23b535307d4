"""Pure parts of the web tier: the bundle, words for values, the day's chart; and the command for accounts."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import io
import json
import re
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from flask import Flask
from playwright._impl._driver import compute_driver_executable

from app import clock
from app.cli import cli
from app.commands import user
from app.config import Settings
from app.errors import InvalidError
from app.models.feeds.feed import FetchRecord
from app.models.feeds.fetch_log import FetchCounts, FetchLog
from app.web.assets import bundle
from app.web.keyboard import keys
from app.web.view import chart, present
from app.web.view.sprite import render_icon
from tests.support.manager import environment

REPO = Path(__file__).resolve().parents[2]
NOW = dt.datetime(2026, 3, 14, 12, 0, tzinfo=dt.UTC)


def test_the_bundle_keeps_modules_apart_and_in_order() -> None:
    modules = {
        "a": 'import { x, y } from "./b.js";\nimport * as c from "./c.js";\nconst z = 1; // z\n'
        "globalThis.out = [x, y(), c.z, z];",
        "b": '// comment\nimport "./c.js";\nexport const x = 2;\n'
        'export function y() {\n  return "  // kept";\n}',
        "c": "export const z = 3;\nconst x = 4;\n/* gone\n   too */\n"
        "export class K {}\nexport async function f() {}",
    }
    made = bundle.bundle_javascript(modules, "a")
    node, _ = compute_driver_executable()  # the one that Playwright brings
    ran = subprocess.run(
        [node, "-e", made + "console.log(JSON.stringify(out))"], capture_output=True, check=True
    )
    assert json.loads(ran.stdout) == [2, "  // kept", 3, 1]
    assert "gone" not in made


@pytest.mark.parametrize(
    "source",
    [
        'import { x as y } from "./b.js";',
        'import x from "./b.js"; ',
        "export default 1;",
        "export { x };",
        'export * from "./b.js";',
    ],
)
def test_the_bundle_refuses_what_it_does_not_know(source: str) -> None:
    with pytest.raises(ValueError, match=r"bundle does not know"):
        bundle.bundle_javascript({"a": source}, "a")


def test_a_bundled_stylesheet_keeps_its_strings_and_drops_idle_spaces() -> None:
    css = (
        '/* c */\n.a > .b,\n.c:hover { content: " · ; { ";  margin: 0 -1px }\n'
        "@media (min-width: 9px) and (x) {\n  .d { inset: calc(1px + 2px); }\n}\n"
    )
    assert bundle.bundle_stylesheet([css]) == (
        '.a > .b,.c:hover{content:" · ; { ";margin:0 -1px}'
        "@media (min-width:9px) and (x){.d{inset:calc(1px + 2px)}}\n"
    )


def test_all_icons_of_templates_are_in_the_sprite() -> None:
    sprite = set(re.findall(r'<symbol id="([\w-]+)"', (REPO / "static/img/sprite.svg").read_text()))
    pages = [path.read_text() for path in (REPO / "app/web/templates").rglob("*.html")]
    used = {name for page in pages for name in re.findall(r"\bicon\([\"']([\w-]+)[\"']\)", page)}
    assert len(used) > 40
    assert used <= sprite, used - sprite


def test_a_screens_script_takes_what_runs_already_and_brings_the_rest() -> None:
    modules = {
        "app": 'import { t } from "./words.js";\nt();',
        "words": "export const t = 1;",
        "drag": 'import { t } from "./words.js";\nexport const grab = t;',
    }
    source = 'import { t } from "../words.js";\nimport { grab } from "../drag.js";\ngrab(t);'
    made = bundle.bundle_screen(modules, "app", "manager", source)
    assert "const m_words = globalThis.eventrModules.m_words;" in made
    assert "const t = 1" not in made
    assert made.index("const m_drag = (") < made.index("grab(t);")
    assert "globalThis.eventrModules = { m_words }" in bundle.bundle_javascript(modules, "app")


def test_a_screen_never_has_the_name_of_a_module() -> None:
    with pytest.raises(ValueError, match="name of a module"):
        bundle.bundle_screen({"tree": "", "app": 'import "./tree.js";\n'}, "app", "tree", "")


def test_the_bundle_refuses_circles() -> None:
    with pytest.raises(ValueError, match="circle"):
        bundle.bundle_javascript({"a": 'import "./b.js";', "b": 'import "./a.js";'}, "a")


def test_vendored_files_are_what_their_list_says() -> None:
    listed = json.loads((REPO / "static/vendor/vendor.json").read_text())
    for row in listed:
        folder = REPO / "static/vendor" / row["folder"]
        body = (folder / row["file"]).read_bytes()
        assert base64.b64encode(hashlib.sha384(body).digest()).decode() == row["sha384"]
        assert (folder / "LICENSE").is_file()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (3, "now"), (65, "1m"), (3599, "59m"), (7200, "2h"), (86400 * 2, "2d"),
        (86400 * 20, "22 Feb"), (86400 * 400, "7 Feb 2025"),
        (-30, "in a moment"), (-600, "in 10 min"), (-7200, "in 2 hr"), (-86400 * 3, "in 3 days"),
    ],
)  # fmt: skip
def test_times_are_told_as_people_tell_them(seconds: int, words: str) -> None:
    with clock.set_source(lambda: NOW):
        assert present.format_ago(NOW - dt.timedelta(seconds=seconds)) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.44, "0.4 sec"), (41, "41 sec"), (65, "1 min"), (200, "3 min"), (7300, "2 hr")]
)
def test_durations_are_shortened_as_relative_times_are(seconds: float, words: str) -> None:
    assert present.format_span(seconds) == words


def test_the_hour_of_a_report_names_its_month() -> None:
    assert present.format_hour(dt.datetime(2026, 2, 18, 9, 30, tzinfo=dt.UTC)) == "18 Feb, 09:00"


@pytest.mark.parametrize(
    ("error", "words"), [("http_503", "failed: HTTP 503"), ("body_too_large", "failed: body too large")]
)
def test_a_failed_fetch_is_told_in_words(error: str, words: str) -> None:
    assert chart.format_outcome(FetchRecord(1, NOW, 503, 5, 0, 0, error)) == words


@pytest.mark.parametrize(
    ("octets", "words"),
    [
        (None, ""),
        (0, "0 bytes"),
        (1, "1 byte"),
        (840, "840 bytes"),
        (1200, "1.2 kB"),
        (3_400_000, "3.4 MB"),
        (5 * 10**10, "50 GB"),
    ],
)
def test_sizes_are_told_in_round_numbers(octets: int | None, words: str) -> None:
    assert present.format_size(octets) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(5, "0:05"), (245, "4:05"), (3753, "1:02:33"), (90_000, "25:00:00")]
)
def test_recordings_are_told_as_players_do(seconds: int, words: str) -> None:
    assert present.format_playtime(seconds) == words


@pytest.mark.parametrize(
    ("rate", "words"),
    [(None, "rarely"), (21, "3 a day"), (2, "2 a week"), (0.5, "2 a month"), (0.05, "a few a year")],
)
def test_rates_are_told_in_words(rate: float | None, words: str) -> None:
    assert present.format_weekly_rate(rate) == words


def test_browsers_are_told_in_two_words() -> None:
    agent = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0"
    assert present.describe_browser(agent) == "Firefox, Windows"
    assert present.describe_browser("") == "Unknown"


def _fetches(*ages: tuple[float, int, str | None]) -> list[FetchRecord]:
    return [FetchRecord(1, NOW - dt.timedelta(hours=h), 200, 5, 9, new, error) for h, new, error in ages]


def _log(seconds: int, *ages: tuple[float, int, str | None]) -> FetchLog:
    """Return the log of these fetches, with counts by hour or day."""
    records, counts = _fetches(*ages), dict[int, FetchCounts]()
    for record in records:
        number = int(record.at.timestamp()) // seconds
        one = (1, int(record.error is not None), record.new)
        counts[number] = FetchCounts(*map(sum, zip(counts.get(number, FetchCounts()), one, strict=True)))
    return FetchLog(tuple(records), hours=counts, days=counts)


def test_the_chart_shows_twenty_hours_and_what_is_to_come() -> None:
    log = _log(3600, (1, 4, None), (1.1, 2, None), (12, 0, None), (19, 0, "timeout"), (25, 9, None))
    forecast = [3600.0] * 24
    forecast[NOW.hour] = 1200.0
    day = chart.draw_day(log, forecast, NOW + dt.timedelta(hours=1), NOW)
    assert [t.kind for t in day.ticks] == ["new", "new", "same", "bad"]
    assert [t.x for t in day.ticks] == [day.now_x - 30 * age for age in (1, 1.1, 12, 19)]
    assert day.next_x == day.now_x + 30
    assert len(day.hours) == 24
    assert sum(h.new for h in day.hours) == 6
    assert sum(h.failed for h in day.hours) == 1
    assert max(h.bar for h in day.hours) == chart.BARS
    assert [h.ahead for h in day.hours] == [False] * 20 + [True] * 4
    assert [h.expected for h in day.hours if h.expected] == [2.0]
    assert chart.draw_day(FetchLog(), [], None, NOW).next_x is None
    assert chart.draw_day(FetchLog(), [], NOW + dt.timedelta(hours=9), NOW).next_x is None
    half = dt.timezone(dt.timedelta(hours=5, minutes=30))
    shown = chart.draw_day(log, forecast, None, NOW, half).hours
    assert [h.new for h in shown] == [h.new for h in day.hours]
    assert {h.label[-2:] for h in shown} == {"30"}


def test_days_tell_how_a_feed_fared() -> None:
    day = 24
    log = _log(
        86400,
        (0, 1, None), (1 * day, 0, None), (2 * day, 0, "timeout"), (3 * day, 0, "gone"), (3 * day, 0, None),
        (99 * day, 0, "gone"),
    )  # fmt: skip
    cells = chart.draw_days(log, NOW)
    assert [c.kind for c in cells] == ["none"] * 10 + ["some", "bad", "same", "new"]
    assert cells[-4].fetches == 2
    assert cells[-1].day == NOW.date()


def test_no_key_means_two_things() -> None:
    pressed = [key for _, rows in keys.GROUPS for row in rows for key in row.keys]
    assert len(pressed) == len(set(pressed))


def test_the_command_makes_accounts(
    settings: Settings, db: Any, redis_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(settings).items():
        monkeypatch.setenv(name, value)
    asked = ["user", "create", "--name", "root", "--email", "r@example.org", "--admin", "--password", "-"]
    done = CliRunner().invoke(cli, asked, input="a quiet place 17\n")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) | {"id": 0} == {
        "id": 0,
        "name": "root",
        "email": "r@example.org",
        "role": "admin",
    }
    assert db.users.find_one()["role"] == "admin"
    again = CliRunner().invoke(cli, asked, input="a quiet place 17\n")
    assert again.exit_code != 0


@pytest.mark.parametrize("line", ["a quiet plaçe 17\n", "a quiet plaçe 17\r\n", "a quiet plaçe 17"])
def test_a_password_from_a_pipe_is_one_line(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(line.encode()), "ascii"))
    assert user._piped() == "a quiet plaçe 17"


@pytest.mark.parametrize(
    ("words", "given", "sentence"),
    [
        (["--password", "-"], b"a quiet pla\xe7e 17\n", "isn't valid UTF-8"),
        (["--password", "-"], None, "input is closed"),
        ([], b"a quiet place 17\n", "--password -"),
        ([], None, "input is closed"),
    ],
)
def test_a_password_that_cannot_be_read_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, words: list[str], given: bytes | None, sentence: str
) -> None:
    monkeypatch.setattr(sys, "stdin", None if given is None else io.TextIOWrapper(io.BytesIO(given)))
    with pytest.raises(InvalidError, match=sentence):
        cli.main(["user", "create", "--name", "x", "--email", "x@example.org", *words], standalone_mode=False)


class _Label(str):
    """A text that can be watched."""


def test_the_label_of_an_icon_is_not_kept(app: Flask) -> None:
    """It may have a person's words."""
    with app.test_request_context():
        label = _Label("Ann’s secret")
        assert "Ann’s secret" in render_icon("marker", label)
        watched = weakref.ref(label)
        del label
        assert watched() is None
