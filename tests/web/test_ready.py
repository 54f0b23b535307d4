"""Whether the web tier can serve: cheap to ask, and honest."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
from flask import Flask

from app import create_app
from app.bootstrap import services as bootstrap
from app.config import Settings
from app.errors import StoreError
from app.services.operations.readiness import KEPT, Readiness

_TITLES = {"mongodb": "MongoDB", "redis": "Redis"}


def test_ready_when_both_stores_answer(app: Flask, redis_client: redis.Redis) -> None:
    answer = app.test_client().get("/readyz")
    assert (answer.status_code, answer.json) == (
        200,
        {"ready": True, "missing": [], "problems": {}},
    )
    assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize(
    ("away", "missing"),
    [
        ({"redis_url": "unix:///nonexistent/redis.sock"}, ["redis"]),
        ({"mongodb_uri": "mongodb://%2Fnonexistent%2Fmongodb.sock/?directConnection=true"}, ["mongodb"]),
    ],
)
def test_a_store_that_is_away_is_named_and_nothing_more(
    settings: Settings, away: dict[str, str], missing: list[str]
) -> None:
    without = dataclasses.replace(settings, **away)  # type: ignore[arg-type]
    with contextlib.closing(bootstrap.build(without)) as services:
        client = create_app(without, services).test_client()
        client.set_cookie("eventr", "x" * 43)  # as a browser sends it: whose it is needs no store here
        answer = client.get("/readyz")
        problems = {name: f"{_TITLES[name]} isn't responding." for name in missing}
        assert (answer.status_code, answer.json) == (
            503,
            {"ready": False, "missing": missing, "problems": problems},
        )
        assert client.get("/healthz").status_code == 200


def test_figures_are_not_for_the_public(app: Flask) -> None:
    assert app.test_client().get("/metrics").status_code == 404


def test_many_who_ask_cost_one_look_a_second() -> None:
    now, asked, is_away = [100.0], [0], [False]

    def check() -> None:
        asked[0] += 1
        if is_away[0]:
            raise StoreError

    readiness = Readiness({"redis": check}, timer=lambda: now[0])
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: readiness.find_missing(), range(200))) == [[]] * 200
    assert asked == [1]
    is_away[0] = True
    assert readiness.find_missing() == []
    now[0] += KEPT
    assert readiness.find_missing() == ["redis"]
    assert asked == [2]


def test_while_a_store_keeps_one_waiting_the_others_hear_what_was_known() -> None:
    now, begun, go_on = [100.0], threading.Event(), threading.Event()
    is_away = [False]

    def check() -> None:
        if is_away[0]:
            begun.set()
            assert go_on.wait(30)
            raise StoreError

    readiness = Readiness({"mongodb": check}, timer=lambda: now[0])
    assert readiness.find_missing() == []
    is_away[0], now[0] = True, now[0] + KEPT
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(readiness.find_missing)
        assert begun.wait(30)
        assert readiness.find_missing() == []
        go_on.set()
        assert first.result(30) == ["mongodb"]
    assert readiness.find_missing() == ["mongodb"]
