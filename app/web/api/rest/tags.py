"""Tags and saved searches."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.models.reading.tag import SavedSearch as StoredSearch
from app.models.reading.tag import Tag as Stored
from app.web.api.rest.shapes import OTHER_TAG, SEARCH, TAG, Body, Id, Query, Shape, Undo
from app.web.api.rest.table import Reply, add_example, add_operation
from app.web.context import get_services

GROUP = "Tags and searches"


class Tag(Shape, frozen=True):
    """One of your tags; `count`: number of entries with the tag."""

    id: Id
    name: str
    count: int


class TagList(Shape, frozen=True):
    """All your tags, by name."""

    items: tuple[Tag, ...]


class TagChange(Body, frozen=True):
    """The new name of a tag."""

    name: Annotated[str, Meta(min_length=1, max_length=256)]


class TagMerge(Body, frozen=True):
    """The tag that replaces this one."""

    into: Id


class Search(Shape, frozen=True):
    """A saved search; `notify`: new entries that match it notify you."""

    id: Id
    name: str
    query: str
    notify: bool


class SearchList(Shape, frozen=True):
    """All your saved searches, by name."""

    items: tuple[Search, ...]


class NewSearch(Body, frozen=True):
    """A search to save. Without a name, the query becomes the name. An existing name gets the new query."""

    query: Annotated[str, Meta(min_length=1, max_length=1024)]
    name: Annotated[str, Meta(max_length=128)] = ""


class TypedSearch(Query, frozen=True):
    """A search as typed so far."""

    query: Annotated[str, Meta(min_length=1, max_length=256)]


class Suggestion(Shape, frozen=True):
    """A name of a feed, folder or tag, and the whole query with it."""

    name: str
    query: str


class Suggestions(Shape, frozen=True):
    """Completions of the last name in a query; corrections of the first name that matches nothing."""

    completions: tuple[Suggestion, ...]
    corrections: tuple[Suggestion, ...]


class SearchChange(Body, frozen=True):
    """Whether new entries that match the search notify you."""

    notify: bool


_TAG = add_example(Tag(id=TAG, name="to read", count=4))
add_example(TagList(items=(_TAG,)))
add_example(TagChange(name="later"))
add_example(TagMerge(into=OTHER_TAG))
_SEARCH = add_example(Search(id=SEARCH, name="Climate", query="climate -sport", notify=True))
_SUGGESTION = add_example(Suggestion(name="Garden news", query='rose feed:"Garden news"'))
add_example(TypedSearch(query="rose feed:gard"))
add_example(Suggestions(completions=(_SUGGESTION,), corrections=()))
add_example(SearchChange(notify=True))
add_example(SearchList(items=(_SEARCH,)))
add_example(NewSearch(query="climate -sport", name="Climate"))


@add_operation("GET", "/tags", "List tags", scope=Scope.READ, tag=GROUP)
def list_tags(actor: Actor) -> TagList:
    """To create a tag, add it to an entry."""
    return TagList(items=tuple(map(_tag, get_services().tags.list_tags(actor))))


def _tag(tag: Stored) -> Tag:
    return Tag(id=tag.id, name=tag.name, count=tag.count)


@add_operation("PATCH", "/tags/{tag_id}", "Rename a tag", scope=Scope.MARK, tag=GROUP, errors=(409,))
def change_tag(actor: Actor, tag_id: int, body: TagChange) -> Tag:
    """Entries keep the tag under its new name."""
    return _tag(get_services().tags.rename(actor, tag_id, body.name))


@add_operation("POST", "/tags/{tag_id}/merge", "Merge two tags", scope=Scope.MARK, tag=GROUP)
def merge_tag(actor: Actor, tag_id: int, body: TagMerge) -> Undo:
    """All entries get the other tag. This tag is deleted."""
    get_services().tags.merge(actor, tag_id, body.into)
    return Undo(undo=f"tag.{tag_id}")


@add_operation("DELETE", "/tags/{tag_id}", "Delete a tag", scope=Scope.MARK, tag=GROUP)
def delete_tag(actor: Actor, tag_id: int) -> Undo:
    """The entries stay."""
    get_services().tags.delete(actor, tag_id)
    return Undo(undo=f"tag.{tag_id}")


@add_operation("GET", "/searches", "List saved searches", scope=Scope.READ, tag=GROUP)
def list_searches(actor: Actor) -> SearchList:
    """To read the results, use the stream `search` with the query."""
    found = get_services().tags.list_searches(actor)
    return SearchList(items=tuple(map(_search, found)))


def _search(search: StoredSearch) -> Search:
    return Search(id=search.id, name=search.name, query=search.query, notify=search.notify)


@add_operation("POST", "/searches", "Save a search", scope=Scope.MARK, tag=GROUP, status=201, errors=(413,))
def save_search(actor: Actor, body: NewSearch) -> Reply[Search]:
    """The search page explains the query syntax."""
    kept = get_services().tags.save_search(actor, body.name, body.query)
    return Reply(_search(kept), 201)


@add_operation("PATCH", "/searches/{search_id}", "Change a saved search", scope=Scope.MARK, tag=GROUP)
def change_search(actor: Actor, search_id: int, body: SearchChange) -> Search:
    """One notification counts the new entries of all feeds. A search for `is:starred` can't notify."""
    return _search(get_services().tags.set_search_notify(actor, search_id, body.notify))


@add_operation("GET", "/searches/suggestions", "Complete and correct a search", scope=Scope.READ, tag=GROUP)
def suggest_searches(actor: Actor, query: TypedSearch) -> Suggestions:
    """For a query that ends with a name, such as `feed:gard`, and for names that nothing of yours has."""
    service, text = get_services().search_suggestions, query.query
    return Suggestions(
        completions=tuple(
            Suggestion(name=s.name, query=s.query) for s in service.find_completions(actor, text)
        ),
        corrections=tuple(
            Suggestion(name=s.name, query=s.query) for s in service.find_corrections(actor, text)
        ),
    )


@add_operation("DELETE", "/searches/{search_id}", "Delete a saved search", scope=Scope.MARK, tag=GROUP)
def delete_search(actor: Actor, search_id: int) -> Undo:
    """Repeating the request has no further effect; `undo` is then null."""
    token = get_services().tags.delete_search(actor, search_id)
    return Undo(undo=f"search.{token}" if token else None)
