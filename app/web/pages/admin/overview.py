"""The overview: queues, workers, throughput; its charts poll for new figures every five seconds."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, json

from app.errors import EventrError, StoreError
from app.models.operations.throughput import Hour, Minute
from app.web.context import get_actor, get_services
from app.web.view import day_chart
from app.web.view.render import get_fragment_id, render_page

bp = Blueprint("overview", __name__)

#: The parts that change from second to second, by element id.
_PARTS = ("now", "minutes")
#: Seconds. In a younger minute the figures mean nothing.
_TELLING = 20.0
#: The hourly figures in the charts.
_HOURLY = ("feeds", "new", "feed_errors")


@bp.get("")
def show_overview() -> str:
    """Show the overview; as part of a page, only the parts that change from second to second."""
    if get_fragment_id() in _PARTS:
        return render_page(f"pages/admin/{get_fragment_id()}.html", **_now())
    values: dict[str, Any] = {**_now(), "hours": (), "day": None}
    if not values["problem"]:
        values |= {"hours": get_services().operations.list_hours(get_actor()), "day": _day()}
    return render_page("pages/admin/overview.html", **values)


def _now() -> dict[str, Any]:
    ask = get_services().operations
    try:
        engine, throughput = ask.get_engine(get_actor()), ask.get_throughput(get_actor())
    except StoreError as e:
        return {"engine": None, "throughput": None, "problem": e}
    return {"engine": engine, "throughput": throughput, "problem": None}


def _day() -> day_chart.DayChart | None:
    try:
        return day_chart.draw_day(get_services().feed_lists.list_day_slots(get_actor()))
    except EventrError:
        return None  # MongoDB is down: the rest of the page doesn't need it


@bp.get("/figures")
def show_figures() -> Response:
    """Return the figures for the charts: one array per line, times as seconds since 1970."""
    ask = get_services().operations
    minutes = _telling(ask.get_throughput(get_actor()).minutes)
    answer = {"minutes": _minutes(minutes), "hours": _hours(ask.list_hours(get_actor()))}
    return Response(json.dumps(answer, separators=(",", ":")), content_type="application/json")


def _telling(minutes: tuple[Minute, ...]) -> tuple[Minute, ...]:
    """Omit the current minute if it has just begun, since jobs are counted at their end."""
    return minutes if minutes[-1].seconds >= _TELLING else minutes[:-1]


def _minutes(minutes: tuple[Minute, ...]) -> dict[str, list[Any]]:
    return {
        "t": [m.at.timestamp() for m in minutes],
        "rate": [round(m.rate, 2) for m in minutes],
        "new": [m.new for m in minutes],
        "errors": [m.errors for m in minutes],
        "share": [None if m.share is None else round(m.share) for m in minutes],
        "busy": [m.busy for m in minutes],
    }


def _hours(hours: tuple[Hour, ...]) -> dict[str, list[Any]]:
    rows = hours[::-1]
    return {"t": [h.at.timestamp() for h in rows]} | {
        name: [h.figures[name] for h in rows] for name in _HOURLY
    }
