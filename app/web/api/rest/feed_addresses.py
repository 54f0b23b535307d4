"""Feed addresses: secret addresses of lists, for other readers, screens and scripts."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any

from msgspec import Meta

from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope, Token
from app.models.reading.stream import StreamKind, StreamRef
from app.models.sharing.pages import FeedFormat
from app.services.accounts.tokens import NAME
from app.services.sharing.stream_feeds import build_path
from app.web.api.rest.shapes import ADDRESS, PASSWORD, Body, Id, Shape, StreamName
from app.web.api.rest.streams import parse_stream_ref
from app.web.api.rest.table import Reply, add_example, add_operation
from app.web.context import get_services, get_web
from app.web.view.views import build_head

TAG = "Streams"


class FeedAddress(Shape, frozen=True):
    """A feed address, without its secret. `q`: the query of `search`.

    `used`, `agent`: when a program last read the feed, and what it calls itself.
    """

    id: Id
    name: str
    stream: StreamName
    q: str
    created: dt.datetime
    used: dt.datetime | None
    agent: str


class FeedAddressList(Shape, frozen=True):
    """All your feed addresses, the newest first."""

    items: tuple[FeedAddress, ...]


class NewFeedAddress(Body, frozen=True):
    """The list, and your password. `name`: the title of the feed; empty for the list's own."""

    stream: StreamName
    password: Annotated[str, Meta(min_length=1, max_length=2048)]
    q: Annotated[str, Meta(max_length=256, description="The query, for `search`.")] = ""
    name: Annotated[str, Meta(max_length=NAME)] = ""


class NewFeedAddressMade(FeedAddress, frozen=True):
    """The new address in two formats. Everyone who knows one of them can read the feed."""

    atom: str
    json: str


_VALUES: dict[str, Any] = {
    "id": ADDRESS,
    "name": "Kitchen",
    "stream": "all",
    "q": "",
    "created": dt.datetime(2026, 11, 1, 8, 30, tzinfo=dt.UTC),
    "used": None,
    "agent": "",
}
_SECRET_URL = "https://eventr.example.org/feed/kq0Y3bq1cV2sTn5RkGJm7wXo8ZpLd4Ea"  # noqa: S105
add_example(FeedAddressList(items=(add_example(FeedAddress(**_VALUES)),)))
add_example(
    NewFeedAddressMade(**_VALUES, atom=f"{_SECRET_URL}/atom.xml", json=f"{_SECRET_URL}/feed.json"),
)
add_example(NewFeedAddress(stream="all", name="Kitchen", password=PASSWORD))


def _values(one: Token) -> dict[str, Any]:
    ref = StreamRef.parse(one.stream)
    is_search = ref.kind is StreamKind.SEARCH
    return {
        "id": one.id,
        "name": one.name,
        "stream": ref.kind.value if is_search else str(ref).replace("/", ":"),
        "q": ref.query if is_search else "",
        "created": one.created,
        "used": one.used,
        "agent": one.agent,
    }


@add_operation("GET", "/feed-addresses", "List feed addresses", scope=Scope.READ, tag=TAG)
def list_feed_addresses(actor: Actor) -> FeedAddressList:
    """The secrets aren't returned: the server stores only hashes of them."""
    found = get_services().tokens.list_feed_addresses(actor)
    return FeedAddressList(items=tuple(FeedAddress(**_values(one)) for one in found))


# Not idempotent by a key: the answer would be stored with the secret (W08).
@add_operation("POST", "/feed-addresses", "Create a feed address", scope=Scope.SHARE, tag=TAG, status=201,
           errors=(404,), once=False)  # fmt: skip
def make_feed_address(actor: Actor, body: NewFeedAddress) -> Reply[NewFeedAddressMade]:
    """Needs the scope `read`, too, and your password each time. The addresses are shown only once.

    The feed leaves out what you may not share with everyone.
    """
    services, ref = get_services(), parse_stream_ref(body.stream, body.q)
    name = body.name.strip() or _title(actor, ref)
    made, secret = services.stream_feeds.make_address(actor, None, name, str(ref), proof=body.password)
    base = get_web().base_url
    return Reply(
        NewFeedAddressMade(
            **_values(made),
            atom=base + build_path(secret, FeedFormat.ATOM),
            json=base + build_path(secret, FeedFormat.JSON),
        ),
        201,
    )


def _title(actor: Actor, ref: StreamRef) -> str:
    services = get_services()
    tags = services.tags.list_tags(actor) if ref.kind is StreamKind.TAG else ()
    head = build_head(services.reading.get_tree(actor), ref, tags)
    return head.title[:NAME] if head else str(ref)


@add_operation("DELETE", "/feed-addresses/{address_id}", "Revoke a feed address", scope=Scope.SHARE, tag=TAG,
           status=204)  # fmt: skip
def revoke_feed_address(actor: Actor, address_id: int) -> None:
    """Requests with the address are refused at once. This can't be undone."""
    get_services().tokens.revoke_feed_address(actor, address_id)
