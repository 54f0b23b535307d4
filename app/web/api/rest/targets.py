"""Targets: services that entries are sent to."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from msgspec import Meta

from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.models.reading.targets import Occasion, TargetKind
from app.models.reading.targets import Target as Stored
from app.web.api.rest.shapes import TARGET, Body, Id, Shape
from app.web.api.rest.table import Reply, add_example, add_operation
from app.web.context import get_services

GROUP = "Sending"
Kind = Literal["webhook", "ntfy", "gotify", "readeck", "linkding"]
On = Literal["star", "share"]


class NewTarget(Body, frozen=True):
    """A service.

    `address`: of a topic for `ntfy`, else of the server or webhook. `secret`: signs messages of webhooks,
    else a token of the service. `on`: entries are also sent when you star or share them.
    """

    kind: Kind
    address: Annotated[str, Meta(min_length=1, max_length=2048)]
    secret: Annotated[str, Meta(max_length=512)] = ""
    name: Annotated[str, Meta(max_length=64)] = ""
    on: Annotated[tuple[On, ...], Meta(max_length=2)] = ()


class Target(Shape, frozen=True):
    """One of your services, without its secret.

    `error`: of the last attempt, such as `unreachable`, `tls_failed` or `http_401`; empty: it
    succeeded. `dropped`: entries that weren't sent, because they were too many for a day.
    """

    id: Id
    kind: str
    name: str
    address: str
    on: tuple[str, ...]
    enabled: bool
    tried_at: dt.datetime | None
    error: str
    dropped: int


class TargetList(Shape, frozen=True):
    """All your services, the oldest first."""

    items: tuple[Target, ...]


class TargetSwitch(Body, frozen=True):
    """Whether entries are sent to it."""

    enabled: bool


class TargetSecret(Body, frozen=True):
    """The new secret of a service; empty removes it, if the service needs none."""

    secret: Annotated[str, Meta(max_length=512)]


class TargetAddress(Body, frozen=True):
    """The new address of a service.

    `secret`: empty keeps the stored one, which only works for the same scheme, host and port.
    """

    address: Annotated[str, Meta(min_length=1, max_length=2048)]
    secret: Annotated[str, Meta(max_length=512)] = ""


class SendBody(Body, frozen=True):
    """The service that the entry is sent to."""

    target: Id


add_example(
    NewTarget(kind="webhook", address="https://example.org/hook", secret="a-long-secret", on=("star",))  # noqa: S106
)
_TARGET = add_example(
    Target(
        id=TARGET,
        kind="webhook",
        name="example.org",
        address="https://example.org/hook",
        on=("star",),
        enabled=True,
        tried_at=dt.datetime(2026, 5, 4, 12, tzinfo=dt.UTC),
        error="",
        dropped=0,
    )
)
add_example(TargetList(items=(_TARGET,)))
add_example(TargetSwitch(enabled=True))
add_example(TargetSecret(secret="another-long-secret"))  # noqa: S106
add_example(TargetAddress(address="https://new.example.org/hook", secret="a-long-secret"))  # noqa: S106
add_example(SendBody(target=TARGET))


def _shape(one: Stored) -> Target:
    return Target(
        id=one.id,
        kind=one.kind.value,
        name=one.name,
        address=one.address,
        on=tuple(each.value for each in one.on),
        enabled=one.enabled,
        tried_at=one.tried_at,
        error=one.error,
        dropped=one.dropped,
    )


@add_operation("GET", "/targets", "List services", scope=Scope.READ, tag=GROUP)
def list_targets(actor: Actor) -> TargetList:
    """Rules name them in `send`. Without the scope `share`, addresses end after their host."""
    return TargetList(items=tuple(map(_shape, get_services().sending.list_targets(actor))))


@add_operation("POST", "/targets", "Add a service", scope=Scope.SHARE, tag=GROUP, status=201, errors=(413,))
def add_target(actor: Actor, body: NewTarget) -> Reply[Target]:
    """Needs the scope `read`, too. The secret is stored encrypted, and never returned."""
    occasions = [Occasion(one) for one in body.on]
    kind = TargetKind(body.kind)
    found = get_services().sending.add(
        actor, kind, body.address, name=body.name, secret=body.secret, on=occasions
    )
    return Reply(_shape(found), 201)


@add_operation("PATCH", "/targets/{target_id}", "Switch a service on or off", scope=Scope.SHARE, tag=GROUP)
def switch_target(actor: Actor, target_id: int, body: TargetSwitch) -> Target:
    """What waits is sent within an hour after it is on again."""
    return _shape(get_services().sending.set_enabled(actor, target_id, body.enabled))


@add_operation(
    "PUT",
    "/targets/{target_id}/secret",
    "Change a service's secret",
    scope=Scope.SHARE,
    tag=GROUP,
    errors=(409,),
)
def change_target_secret(actor: Actor, target_id: int, body: TargetSecret) -> Target:
    """Needs the scope `read`, too. Rules and deliveries stay, and what waits is sent with the new secret."""
    return _shape(get_services().sending.change_secret(actor, target_id, body.secret))


@add_operation(
    "PUT",
    "/targets/{target_id}/address",
    "Change a service's address",
    scope=Scope.SHARE,
    tag=GROUP,
    errors=(409,),
)
def change_target_address(actor: Actor, target_id: int, body: TargetAddress) -> Target:
    """Needs the scope `read`, too. Rules and deliveries stay, and what waits is sent to the new address.

    A stored secret isn't sent to another server: if scheme, host or port change, enter it again.
    """
    return _shape(get_services().sending.change_address(actor, target_id, body.address, body.secret))


@add_operation(
    "POST", "/targets/{target_id}/test", "Test a service", scope=Scope.SHARE, tag=GROUP, errors=(429,)
)
def test_target(actor: Actor, target_id: int) -> Target:
    """Sends a test message. The result is in `error` and `tried_at`, at the latest in a second request."""
    return _shape(get_services().sending.test(actor, target_id))


@add_operation(
    "POST",
    "/targets/{target_id}/retry",
    "Send again what a service didn't get",
    scope=Scope.SHARE,
    tag=GROUP,
    errors=(429,),
)
def retry_target(actor: Actor, target_id: int) -> Target:
    """Sends what waits, and the latest entries that were given up; without any, a test message.

    Needs the scope `read`, too. The result is in `error` and `tried_at`, at the latest in a second request.
    """
    return _shape(get_services().sending.retry(actor, target_id))


@add_operation("DELETE", "/targets/{target_id}", "Delete a service", scope=Scope.SHARE, tag=GROUP, status=204)
def delete_target(actor: Actor, target_id: int) -> None:
    """What waits isn't sent."""
    get_services().sending.remove(actor, target_id)


@add_operation(
    "POST",
    "/entries/{entry_id}/send",
    "Send an entry to a service",
    scope=Scope.SHARE,
    tag=GROUP,
    status=202,
    errors=(429,),
)
def send_entry(actor: Actor, entry_id: int, body: SendBody) -> Reply[Target]:
    """A job sends it, and tries again after failures. Needs the scope `read`, too.

    Again within a minute is the same request.
    """
    return Reply(_shape(get_services().sending.send(actor, entry_id, body.target)), 202)
