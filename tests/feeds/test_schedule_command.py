"""``eventr feed schedule``: one JSON document in, one out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from app.cli import cli

NOW = "2026-03-14T10:00:00Z"


def run(text: str | bytes, file: str = "-") -> Result:
    return CliRunner().invoke(cli, ["feed", "schedule", file], input=text)


def answer(**document: Any) -> dict[str, Any]:
    result = run(json.dumps(document))
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found


def test_forecast_and_next_check_come_out() -> None:
    times = [f"2026-03-{day:02}T13:{minute:02}:00+01:00" for day in range(4, 14) for minute in (0, 20, 40)]
    found = answer(published=times, now=NOW, seed=1)
    assert set(found) == {"now", "forecast", "next_check_at", "seconds", "reason", "history"}
    assert found["now"] == "2026-03-14T10:00:00.000Z"
    assert found["forecast"] == [900.0 if hour == 12 else 3600.0 for hour in range(24)]
    assert "2026-03-14T10:50:00Z" < found["next_check_at"] <= "2026-03-14T11:00:00.000Z"
    assert 3000 < found["seconds"] <= 3600
    assert found["reason"] == "hour_table"


def test_history_goes_back_in() -> None:
    first = answer(published=["2026-03-13T12:00:00Z"], now=NOW, seed=1)
    both = answer(published=["2026-03-13T12:00:00Z", "2026-03-14T09:59:00Z"], now=NOW, seed=1)
    assert answer(history=first["history"], published=["2026-03-14T09:59:00Z"], now=NOW, seed=1) == both
    assert answer(history={}, now=NOW)["history"] == {}


def test_hints_and_settings_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(now=NOW, hints={"pushed": True, "errors": 0, "max_age": None})["reason"] == "pushed"
    assert answer(now=NOW, hints={"retry_after": 7200})["seconds"] == 7200
    assert answer(now=NOW, hints={"skip_hours": [10, 11], "ttl_minutes": 5})["seconds"] == 3600
    monkeypatch.setenv("EVENTR_POLL_MAX", "600")
    assert answer(now=NOW)["seconds"] <= 600


def test_empty_object_is_a_first_poll_now() -> None:
    assert answer()["next_check_at"] > answer()["now"]


def test_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    path.write_text(json.dumps({"now": NOW}))
    assert run("", str(path)).exit_code == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json",
        "[" * 100_000,
        b"\xff\xfe\x00",
        "[]",
        '{"unknown": 1}',
        '{"published": "2026-03-14T10:00:00Z"}',
        '{"published": [1]}',
        '{"published": ["yesterday"]}',
        '{"published": ["2026-03-14T10:00:00"]}',
        '{"published": ["0001-01-01T00:00:00+10:00"]}',
        '{"now": "9999-12-31T23:59:59Z"}',
        '{"now": null}',
        '{"seed": "x"}',
        '{"seed": true}',
        '{"hints": []}',
        '{"hints": {"speed": 1}}',
        '{"hints": {"pushed": 1}}',
        '{"hints": {"max_age": -1}}',
        '{"hints": {"skip_hours": [24]}}',
        '{"hints": {"errors": 1.5}}',
        '{"history": 5}',
        '{"history": {"day": 20000, "rows": [1]}}',
        '{"history": {"day": "x", "rows": []}}',
        '{"history": {"day": 20000, "rows": [-1, 0]}}',
    ],
)
def test_input_that_does_not_fit_is_named(text: str | bytes) -> None:
    result = run(text)
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert told["error"] == "invalid"
    assert told["message"].endswith(".")
    assert result.stderr.startswith("eventr: ")


def test_missing_file_is_named(tmp_path: Path) -> None:
    result = run("", str(tmp_path / "none.json"))
    assert result.exit_code == 1
    assert "can't be read" in json.loads(result.stdout)["message"]
