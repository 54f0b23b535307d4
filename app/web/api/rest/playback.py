"""Positions in recordings, which all devices of a user share."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

from msgspec import Meta

from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.models.reading.playback import PlayPosition
from app.services.reading.playback import LONGEST
from app.web.api.rest.shapes import ENTRY, Body, Id, Shape, Url
from app.web.api.rest.table import add_example, add_operation
from app.web.context import get_services

TAG = "Entries"

Seconds = Annotated[int, Meta(ge=0, le=LONGEST)]


class Position(Shape, frozen=True):
    """How far you have listened to a recording of an entry.

    `duration` in seconds, 0 if unknown. `finished`: you heard it to its end.
    """

    entry: Id
    url: str
    seconds: int
    duration: int
    finished: bool
    at: dt.datetime


class PositionList(Shape, frozen=True):
    """Your positions, the latest first."""

    items: tuple[Position, ...]


class NewPosition(Body, frozen=True):
    """Your position in a recording; `url` is the address of one of the entry's files."""

    url: Url
    seconds: Seconds
    duration: Seconds = 0


_POSITION = add_example(
    Position(
        entry=ENTRY,
        url="https://podcast.example/1.mp3",
        seconds=754,
        duration=3600,
        finished=False,
        at=dt.datetime(2026, 5, 4, 12, tzinfo=dt.UTC),
    )
)
add_example(PositionList(items=(_POSITION,)))
add_example(NewPosition(url="https://podcast.example/1.mp3", seconds=754, duration=3600))


def _shape(found: PlayPosition) -> Position:
    return Position(
        entry=found.entry_id,
        url=found.url,
        seconds=found.seconds,
        duration=found.duration,
        finished=found.is_finished,
        at=found.at,
    )


@add_operation("GET", "/positions", "List positions in recordings", scope=Scope.READ, tag=TAG)
def list_positions(actor: Actor) -> PositionList:
    """Returns where you stopped listening, on any device."""
    return PositionList(items=tuple(map(_shape, get_services().playback.list_positions(actor))))


@add_operation(
    "PUT",
    "/entries/{entry_id}/position",
    "Save a position in a recording",
    scope=Scope.MARK,
    tag=TAG,
)
def save_position(actor: Actor, entry_id: int, body: NewPosition) -> Position:
    """Saves how far you have listened. Other devices continue there."""
    return _shape(
        get_services().playback.record(
            actor, entry_id, body.url, seconds=body.seconds, duration=body.duration
        )
    )
