"""Types that several resources share: kinds of values, parts of paths, small answers."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from app.models.reading.stream import MAX_ID
from app.web.api.rest.table import add_example

__all__ = ["UNSET", "UnsetType"]

#: Ids of the objects in the document's examples.
FEED: Final = 1_780_000_000_000_001
FOLDER: Final = 1_780_000_000_000_002
OTHER_FOLDER: Final = 1_780_000_000_000_003
ENTRY: Final = 1_780_000_000_000_004
TAG: Final = 1_780_000_000_000_005
OTHER_TAG: Final = 1_780_000_000_000_006
SEARCH: Final = 1_780_000_000_000_007
SHARE: Final = 1_780_000_000_000_008
COMMENT: Final = 1_780_000_000_000_009
IMPORT: Final = 1_780_000_000_000_010
DISCOVERY: Final = 1_780_000_000_000_011
USER: Final = 1_780_000_000_000_012
FILE: Final = 1_780_000_000_000_013
LIST: Final = 1_780_000_000_000_014
RULE: Final = 7
TARGET: Final = 1_780_000_000_000_015
PAGE: Final = 1_780_000_000_000_014
ADDRESS: Final = 1_780_000_000_000_016
PERSON: Final = "cleo"
PACK: Final = "science"
UNDO: Final = "folder.Zk3vUqJ8mJv1yW2c0n5b3A"
SNAPSHOT: Final = "9f2cQm1sT0eXb7Jd4nKw6A"
FEED_URL: Final = "https://blog.example.org/feed"
PASSWORD: Final = "correct horse battery staple"  # noqa: S105

Id = Annotated[int, Meta(gt=0, lt=MAX_ID)]
#: An id in a query; 0 means none.
Id0 = Annotated[int, Meta(ge=0, lt=MAX_ID)]
Title = Annotated[str, Meta(max_length=512)]
Url = Annotated[str, Meta(min_length=1, max_length=2048)]
Opaque = Annotated[
    str, Meta(max_length=8192, description="The value from the previous response. Don't interpret it.")
]
Limit = Annotated[int, Meta(ge=1, le=1000, description="Number of items per page.")]
_STREAMS: Final = (
    "`today` (unread, from the last 24 hours), `all`, `following`, `starred`, `notes`, "
    "`recent` (by the time of reading), `shares` (your own), `feed:ID`, `folder:ID`, `tag:ID`, or "
    "`search` with a query `q`."
)
StreamName = Annotated[
    str,
    Meta(
        pattern=r"^(today|all|following|starred|notes|recent|shares|search|(feed|folder|tag):[1-9][0-9]{0,15})$",
        description=_STREAMS,
    ),
]
Name = Annotated[str, Meta(min_length=1, max_length=64)]
Slug = Annotated[str, Meta(min_length=1, max_length=80)]
NoteRef = Annotated[str, Meta(pattern=r"^[a-z]{1,16}\.[0-9]{1,16}$")]

#: Parts of paths: their type, an example, and a description.
PARTS: dict[str, tuple[Any, Any, str]] = {
    "feed_id": (Id, FEED, "ID of a feed that you subscribe to."),
    "folder_id": (Id, FOLDER, "ID of one of your folders."),
    "entry_id": (Id, ENTRY, "ID of an entry that you can see."),
    "tag_id": (Id, TAG, "ID of one of your tags."),
    "search_id": (Id, SEARCH, "ID of one of your saved searches."),
    "target_id": (Id, TARGET, "ID of one of the services that you send entries to."),
    "rule_id": (Id, RULE, "ID of one of your rules."),
    "share_id": (Id, SHARE, "ID of a share that you can see."),
    "comment_id": (Id, COMMENT, "ID of a comment that you can see."),
    "list_id": (Id, LIST, "ID of one of the lists that you follow."),
    "import_id": (Id, IMPORT, "ID of one of your imports."),
    "address_id": (Id, ADDRESS, "ID of one of your feed addresses."),
    "file_id": (Id, FILE, "ID of one of your files."),
    "discovery_id": (Id, DISCOVERY, "ID from the response that started the search."),
    "page_id": (Id, PAGE, "ID from the response that started reading the page."),
    "stream": (StreamName, "all", f"A list of entries: {_STREAMS}"),
    "slug": (Slug, PACK, "Name of the starter pack in addresses."),
    "name": (Name, PERSON, "User name of a person on this server."),
}


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request body; unknown fields are rejected."""


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """A response body; clients must ignore unknown fields."""


class Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The query string; unknown fields are rejected."""


class CursorQuery(Query, frozen=True):
    """The page to return."""

    cursor: Opaque = ""


class Undo(Shape, frozen=True):
    """Send this token to `/undo` within a day to undo the action; null if there's nothing to undo."""

    undo: str | None


class Undone(Shape, frozen=True):
    """The result.

    `asked`: people who must approve your follow request again. `lost`: people you can no longer follow.
    """

    asked: int = 0
    lost: int = 0


class Token(Body, frozen=True):
    """The token of the action to undo."""

    undo: Annotated[str, Meta(min_length=1, max_length=128)]


add_example(Undo(undo=UNDO))
add_example(Undone())
add_example(Token(undo=UNDO))
