"""OPML imports: upload, start, progress; and the export of subscriptions."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

from msgspec import Meta

from app import clock
from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.models.imports.imports import Import as Stored
from app.models.imports.imports import ImportItem, ImportState, ItemState
from app.models.imports.pulls import ADDRESS_MAX, NAME_MAX, SECRET_MAX, PullKind
from app.services.imports.imports import PAGE
from app.web.api.rest.shapes import FEED, FEED_URL, IMPORT, UNSET, Body, Id, Query, Shape, UnsetType
from app.web.api.rest.subscriptions import BulkDone
from app.web.api.rest.table import OPML, Reply, add_example, add_operation
from app.web.context import get_services
from app.web.view import i18n
from app.web.view import imports as importview

TAG = "Imports"


class Import(Shape, frozen=True):
    """An import. The state `preview` means that it's ready to start. `counts`: number of outlines by state.

    `goal` and `done`: outlines to process and processed in this run. `seconds`: estimated time left.
    `marks`: number of marked entries in an archive, by outcome; `long`: texts that were cut or left out.
    `choices`: number of `rules`, `searches` and `feeds` with settings in an archive of Eventr; `cut`: too
    many or unusable. `choices_taken`: how many of them were new; null: none taken over, or not yet.
    `message`: why a file can't be read (state `unreadable`).
    """

    id: Id
    name: str
    title: str
    state: ImportState
    created: dt.datetime
    ended: dt.datetime | None
    total: int
    goal: int
    done: int
    counts: dict[str, int]
    seconds: int | None
    marks: dict[str, int]
    choices: dict[str, int]
    choices_taken: dict[str, int] | None
    message: str | None


class ImportList(Shape, frozen=True):
    """Your latest imports, newest first."""

    items: tuple[Import, ...]


class NewImport(Body, frozen=True):
    """The text of an OPML file and its file name."""

    opml: Annotated[str, Meta(min_length=1)]
    name: Annotated[str, Meta(max_length=256)] = ""


class NewServerImport(Body, frozen=True):
    """An account on another reader's server.

    `kind`: `greader` for FreshRSS, The Old Reader, BazQux, Eventr and others with the Google Reader API.
    `secret`: the password for apps, or Miniflux's API key. It is deleted as soon as everything is read.
    `address`: leave it out for `newsblur`. `name`: not used for `miniflux`.
    """

    kind: PullKind
    secret: Annotated[str, Meta(min_length=1, max_length=SECRET_MAX)]
    address: Annotated[str, Meta(max_length=ADDRESS_MAX)] = ""
    name: Annotated[str, Meta(max_length=NAME_MAX)] = ""


class ImportOutline(Shape, frozen=True):
    """One outline; if it failed, `error` is the error code and `message` explains it."""

    index: int
    line: int
    url: str
    title: str
    state: ItemState
    feed_id: Id | None
    error: str | None
    message: str | None


class OutlinePage(Shape, frozen=True):
    """One page of the outlines, in the order of the file."""

    items: tuple[ImportOutline, ...]
    next: str | None
    total: int


class OutlineQuery(Query, frozen=True):
    """The page to return: `next` from the previous page."""

    cursor: Annotated[int, Meta(ge=0, le=1000, description="The value from the previous response.")] = 0


class ImportStart(Body, frozen=True):
    """How to import.

    `keep_folders`: keep the file's folders; otherwise put all feeds into `into`, empty for no folder.
    `chosen`: indexes of the outlines to import. Omit it to import all feeds that you don't have yet.
    `choices`: also take over rules, saved searches and settings of new feeds from an archive of Eventr. Rules
    and searches need the scope `mark`.
    """

    keep_folders: bool = True
    into: Annotated[str, Meta(max_length=128)] = ""
    chosen: (
        Annotated[tuple[Annotated[int, Meta(ge=0, le=1_000_000)], ...], Meta(max_length=50_000)] | UnsetType
    ) = UNSET
    choices: bool = True


class ImportRetry(Body, frozen=True):
    """The `index` of the outline to retry. Omit it to retry all failed outlines."""

    index: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None


_AT = dt.datetime(2026, 11, 1, 8, 30, tzinfo=dt.UTC)
_OPML = (
    '<opml version="2.0"><head><title>Mine</title></head><body>'
    '<outline type="rss" text="A site" xmlUrl="https://site.example.org/atom.xml"/></body></opml>'
)
_ONE = add_example(
    Import(
        id=IMPORT,
        name="mine.opml",
        title="Mine",
        state=ImportState.PREVIEW,
        created=_AT,
        ended=None,
        total=1,
        goal=0,
        done=0,
        counts={"waiting": 1},
        seconds=None,
        marks={},
        choices={},
        choices_taken=None,
        message=None,
    )
)
add_example(ImportList(items=(_ONE,)))
add_example(NewImport(opml=_OPML, name="mine.opml"))
add_example(NewServerImport(PullKind.MINIFLUX, "0f3a-example", "https://rss.example.org"))
_LINE = add_example(
    ImportOutline(
        index=0,
        line=1,
        url=FEED_URL,
        title="blog",
        state=ItemState.ADDED,
        feed_id=FEED,
        error=None,
        message=None,
    )
)
add_example(OutlinePage(items=(_LINE,), next=None, total=1))
add_example(ImportStart())
add_example(ImportRetry())


def build_import(found: Stored) -> Import:
    """Return an import as the API shows it."""
    return Import(
        id=found.id,
        name=found.name,
        title=found.title,
        state=found.state,
        created=found.created,
        ended=found.ended,
        total=found.total,
        goal=found.goal,
        done=found.done,
        counts=dict(found.counts),
        seconds=found.estimate_seconds_left(clock.now()),
        marks=dict(found.marks),
        choices=dict(found.choice_counts),
        choices_taken=None if found.choices_taken is None else dict(found.choices_taken),
        message=i18n.translate_error(fault) if (fault := importview.build_fault(found)) else None,
    )


@add_operation("GET", "/imports", "List imports", scope=Scope.READ, tag=TAG)
def list_imports(actor: Actor) -> ImportList:
    """Returns your latest 50 imports."""
    return ImportList(items=tuple(map(build_import, get_services().imports.list_recent(actor))))


@add_operation("POST", "/imports", "Upload an OPML file", scope=Scope.SUBSCRIBE, tag=TAG, status=201,
           request_headers=(OPML, "application/xml", "text/xml"), raw_body="opml",
           needs_space=True)  # fmt: skip
def make_import(actor: Actor, body: NewImport) -> Reply[Import]:
    """Accepts OPML inside JSON, or the file itself. Nothing is subscribed to until you start the import."""
    kept = get_services().imports.preview(actor, body.opml.encode("utf-8", "surrogateescape"), body.name)
    return Reply(build_import(kept), 201, f"/imports/{kept.id}")


@add_operation("POST", "/files/{file_id}/import", "Import a file", scope=Scope.SUBSCRIBE, tag=TAG, status=202,
           errors=(404,), needs_space=True)  # fmt: skip
def import_file(actor: Actor, file_id: int) -> Reply[Import]:
    """Reads an uploaded archive or OPML file in the background. Its state is `reading`, then `preview`."""
    kept = get_services().archives.request_reading(actor, file_id)
    return Reply(build_import(kept), 202, f"/imports/{kept.id}")


@add_operation("POST", "/imports/server", "Import from a server", scope=Scope.SUBSCRIBE, tag=TAG, status=202,
           needs_space=True)  # fmt: skip
def import_server(actor: Actor, body: NewServerImport) -> Reply[Import]:
    """Reads your account on another server in the background. Its state is `reading`, then `preview`."""
    kept = get_services().pulled_imports.request_pull(
        actor, body.kind, body.address, name=body.name, secret=body.secret
    )
    return Reply(build_import(kept), 202, f"/imports/{kept.id}")


@add_operation("POST", "/imports/{import_id}/try", "Try a server again now", scope=Scope.SUBSCRIBE, tag=TAG,
               status=202, errors=(409,))  # fmt: skip
def try_import_now(actor: Actor, import_id: int) -> Reply[Import]:
    """Sends the next request to a server that isn't answering, without waiting. A repeat changes nothing.

    At most 20 tries per hour. 409: the import isn't reading a server, or the server asked to wait for longer.
    """
    found = get_services().pulled_imports.try_now(actor, import_id)
    return Reply(build_import(found), 202, f"/imports/{import_id}")


@add_operation("GET", "/imports/{import_id}", "Get an import", scope=Scope.READ, tag=TAG)
def get_import(actor: Actor, import_id: int) -> Import:
    """Returns the progress of the import. Events also report the progress."""
    return build_import(get_services().imports.get(actor, import_id))


@add_operation("GET", "/imports/{import_id}/items", "List an import's outlines", scope=Scope.READ, tag=TAG)
def list_import_items(actor: Actor, import_id: int, query: OutlineQuery) -> OutlinePage:
    """Returns up to 500 outlines per page."""
    found = get_services().imports.get(actor, import_id)
    items = get_services().imports.list_page(actor, import_id, query.cursor)
    more = (query.cursor + 1) * PAGE < found.total
    return OutlinePage(
        items=tuple(map(_outline, items)), next=str(query.cursor + 1) if more else None, total=found.total
    )


def _outline(item: ImportItem) -> ImportOutline:
    return ImportOutline(
        index=item.index,
        line=item.line,
        url=item.url,
        title=item.title,
        state=item.state,
        feed_id=item.feed_id,
        error=item.error,
        message=importview.explain_failure(item) if item.error else None,
    )


@add_operation("POST", "/imports/{import_id}/start", "Start an import", scope=Scope.SUBSCRIBE, tag=TAG,
           status=202, errors=(409,))  # fmt: skip
def start_import(actor: Actor, import_id: int, body: ImportStart) -> Reply[Import]:
    """The import runs in the background and continues if you disconnect."""
    imports = get_services().imports
    if body.chosen is UNSET:
        imports.choose_all(actor, import_id, True)  # undo the selection of an earlier start that failed
    else:
        imports.choose_all(actor, import_id, False)
        for page in sorted({index // PAGE for index in body.chosen}):
            imports.choose_items(actor, import_id, page, [i for i in body.chosen if i // PAGE == page])
    started = imports.start(
        actor, import_id, keep_folders=body.keep_folders, into=body.into, choices=body.choices
    )
    return Reply(build_import(started), 202, f"/imports/{import_id}")


@add_operation(
    "POST", "/imports/{import_id}/cancel", "Cancel an import", scope=Scope.SUBSCRIBE, tag=TAG, errors=(409,)
)
def cancel_import(actor: Actor, import_id: int) -> Import:
    """Feeds that you've already subscribed to stay."""
    return build_import(get_services().imports.cancel(actor, import_id))


@add_operation("POST", "/imports/{import_id}/continue", "Continue a canceled import", scope=Scope.SUBSCRIBE,
               tag=TAG, status=202, errors=(409,))  # fmt: skip
def continue_import(actor: Actor, import_id: int) -> Reply[Import]:
    """The import continues where it stopped."""
    return Reply(build_import(get_services().imports.resume(actor, import_id)), 202, f"/imports/{import_id}")


@add_operation("POST", "/imports/{import_id}/retry", "Retry failed outlines", scope=Scope.SUBSCRIBE, tag=TAG,
           status=202, errors=(409,))  # fmt: skip
def retry_import(actor: Actor, import_id: int, body: ImportRetry) -> Reply[Import]:
    """Retries one outline, or all that failed."""
    return Reply(
        build_import(get_services().imports.retry(actor, import_id, body.index)), 202, f"/imports/{import_id}"
    )


@add_operation("DELETE", "/imports/{import_id}", "Delete an import", scope=Scope.SUBSCRIBE, tag=TAG,
           status=204, errors=(409,))  # fmt: skip
def delete_import(actor: Actor, import_id: int) -> None:
    """You stay subscribed to the imported feeds."""
    get_services().imports.remove(actor, import_id)


@add_operation(
    "POST",
    "/imports/{import_id}/unsubscribe",
    "Unsubscribe from imported feeds",
    scope=Scope.SUBSCRIBE,
    tag=TAG,
    errors=(409,),
)
def unsubscribe_import(actor: Actor, import_id: int) -> BulkDone:
    """You stay subscribed to feeds that you had before the import."""
    token, count = get_services().imports.unsubscribe(actor, import_id)
    return BulkDone(count=count, undo=f"feeds.{token}" if count else None)


@add_operation("GET", "/export.opml", "Export subscriptions", scope=Scope.READ, tag=TAG,
           answer_type=f"{OPML}; charset=utf-8")  # fmt: skip
def export_opml(actor: Actor) -> bytes:
    """Returns OPML 2.0. A feed in several folders is listed in each of them."""
    return get_services().imports.export(actor)
