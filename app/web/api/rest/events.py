"""Passes for the stream of events."""

from __future__ import annotations

import datetime as dt
from urllib.parse import urlencode

from flask import g

from app import clock
from app.models.accounts.actor import Actor
from app.models.accounts.token import Caller, Scope
from app.web.api.rest.shapes import Shape
from app.web.api.rest.table import Reply, add_example, add_operation
from app.web.context import get_services, get_web

TAG = "Events"


class EventsPass(Shape, frozen=True):
    """The address of the event stream, valid until `expires`.

    `token` is part of `url` and gives access to nothing else.
    """

    url: str
    token: str
    expires: dt.datetime


_TOKEN = "WzE3ODAwMDAwMDAwMDAwMTIsIjE3LTAiXQ.aQXg.signature"  # noqa: S105 — an example
add_example(
    EventsPass(
        url=f"https://reader.example.org/events?pass={_TOKEN}",
        token=_TOKEN,
        expires=dt.datetime(2026, 11, 1, 8, 31, tzinfo=dt.UTC),
    )
)


@add_operation(
    "POST",
    "/events/pass",
    "Get access to the event stream",
    scope=Scope.READ,
    tag=TAG,
    status=201,
    once=False,
)
def make_events_pass(actor: Actor) -> Reply[EventsPass]:
    """Open `url` with GET within a minute. Server-Sent Events arrive while the connection is open.

    `counts`: entries were marked, so request the counts. `new`: feeds have new entries; `feeds` has the
    number for each feed. `import`: progress of an import. `reset`: reload everything. `beat`: nothing
    happened. To resume after a disconnect, get a new pass, and send the last event's ID as `Last-Event-ID`.
    """
    expires = clock.now() + dt.timedelta(seconds=int(get_web().settings.events_pass_ttl))
    caller: Caller = g.caller
    token = get_services().event_passes.create_pass(actor, caller.token)
    url = f"{get_web().base_url}/events?{urlencode({'pass': token})}"
    return Reply(EventsPass(url=url, token=token, expires=expires), 201)
