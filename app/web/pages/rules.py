"""Settings → Rules: the list of rules, and the editor with its preview. All of it works without scripts."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from flask import Blueprint, Response, make_response, redirect, request
from flask_babel import ngettext

from app import clock
from app.errors import ConflictError, EventrError, InvalidError
from app.models.accounts.user import Notice
from app.models.reading.rules import ACTIONS, Rule, RulePreview, parse_condition, suggest_conditions
from app.models.reading.stream import SearchSummary, TreeFolder
from app.services.reading.rules import FILE_MAX
from app.web import forms
from app.web.context import get_actor, get_services, get_session
from app.web.forms import declare_text
from app.web.pages.settings import render_section
from app.web.security.sessions import takes_file
from app.web.view.highlight import LimitedPatterns
from app.web.view.render import render_page

bp = Blueprint("rules", __name__)

_FEED, _FOLDER = "feed/", "folder/"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RuleForm:
    """``scope``: such as ``feed/7`` and ``folder/3``; ``do``: ``preview`` or ``save``."""

    id: int = 0
    name: str = declare_text(max=512, default="")
    query: str = declare_text(max=1024, default="")
    scope: tuple[str, ...] = dataclasses.field(default=(), metadata={"max": 40, "one_of": ()})
    read: bool = False
    star: bool = False
    hide: bool = False
    highlight: bool = False
    notify: bool = False
    full_text: bool = False
    tag: str = declare_text(max=256, default="")
    send: int = 0
    stop: bool = False
    enabled: bool = False
    do: str = declare_text(max=8, one_of=("preview", "save"), default="save")

    def to_rule(self) -> Rule:
        """Return the rule."""
        flags = {action: getattr(self, action) for action in ACTIONS}
        return Rule(
            self.id,
            self.name,
            self.query,
            _select(self.scope, _FEED),
            _select(self.scope, _FOLDER),
            tag=self.tag,
            send=self.send,
            stop=self.stop,
            enabled=self.enabled,
            **flags,
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What a new rule begins with."""

    query: str = declare_text(max=1024, default="")
    do: str = declare_text(max=16, default="", one_of=("", *ACTIONS))
    entry: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    by: str = declare_text(max=4, one_of=("up", "down"))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    run: str = declare_text(max=64)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    on: bool


def _select(scope: Sequence[str], kind: str) -> tuple[int, ...]:
    found = [one.removeprefix(kind) for one in scope if one.startswith(kind)]
    if any(not (number.isascii() and number.isdecimal() and len(number) < 17) for number in found):
        raise InvalidError("This isn't a feed or folder.", field="scope")
    return tuple(map(int, found))


class _Scope(NamedTuple):
    """A folder or feed: its value in the form, its name, and what its icon is drawn from."""

    value: str
    name: str
    feed_id: int = 0
    icon: str | None = None


def _find_scopes() -> tuple[list[_Scope], list[_Scope]]:
    """Return the actor's folders and feeds."""
    tree = get_services().reading.get_tree(get_actor())
    folders, feeds = list[_Scope](), {one.feed_id: one for one in tree.feeds}
    for folder, path in _walk(tree.folders, ""):
        folders.append(_Scope(f"{_FOLDER}{folder.id}", path))
        feeds |= {one.feed_id: one for one in folder.feeds}
    rows = [_Scope(f"{_FEED}{one.feed_id}", one.title, one.feed_id, one.icon) for one in feeds.values()]
    return folders, sorted(rows, key=lambda row: row.name.casefold())


def _walk(folders: Sequence[TreeFolder], above: str) -> Iterator[tuple[TreeFolder, str]]:
    for folder in folders:
        path = above + folder.name
        yield folder, path
        yield from _walk(folder.folders, f"{path} › ")


@bp.get("/settings/rules")
def show_rules() -> str:
    """Show all rules with the number of entries that each matched."""
    return _show_list()


def _show_list(error: EventrError | None = None) -> str:
    rules, today = get_services().rules.list_rules(get_actor()), clock.now().date()
    folders, feeds = _find_scopes()
    return render_section(
        "rules",
        rules=rules.rules,
        counts={rule.id: rules.count_hits(rule.id, today) for rule in rules.rules},
        names={one.value: one.name for one in (*folders, *feeds)},
        targets={one.id: one.name for one in get_services().sending.list_targets(get_actor())},
        run=get_services().rule_runs.find_run(get_actor()),
        error=error,
    )


@bp.get("/settings/rules/new")
def show_new() -> str:
    """Show the editor of a new rule."""
    start = forms.read_query(request, Start)
    query, like = start.query, list[str]()
    if start.entry:
        like = _suggest(start.entry)
        query = query or next(iter(like), "")
    rule = Rule(0, "", query)
    changes: dict[str, Any] = {start.do: True} if start.do else {}
    return _editor(dataclasses.replace(rule, **changes), like=like, start=start)


def _suggest(entry_id: int) -> list[str]:
    article = get_services().reading.get_article(get_actor(), entry_id)
    entry = article.entry
    return suggest_conditions(entry.title, entry.author, entry.categories, article.feed_title)


@bp.get("/settings/rules/<int:rule_id>")
def show_rule(rule_id: int) -> str:
    """Show the editor of a rule."""
    return _editor(get_services().rules.get(get_actor(), rule_id))


def _editor(
    rule: Rule,
    preview: RulePreview | None = None,
    error: EventrError | None = None,
    *,
    like: Sequence[str] = (),
    start: Start | None = None,
) -> str:
    folders, feeds = _find_scopes()
    condition = parse_condition(rule.query) if preview else None
    chosen = {f"{_FEED}{i}" for i in rule.feeds} | {f"{_FOLDER}{i}" for i in rule.folders}
    return render_page(
        "pages/settings/rule.html",
        section="rules",
        rule=rule,
        folders=folders,
        feeds=feeds,
        chosen=chosen,
        # Without them, saving could make a rule for one feed a rule for all.
        targets=get_services().sending.list_targets(get_actor()),
        lost=sorted(chosen - {one.value for one in (*folders, *feeds)}),
        preview=preview,
        search=SearchSummary(condition.query.terms, ()) if condition else None,
        patterns=LimitedPatterns(condition.patterns) if condition and condition.patterns else (),
        error=error,
        like=like,
        start=start,
    )


@bp.post("/settings/rules")
def save_rule() -> Response | tuple[str, int] | str:
    """Store a rule, or show what it would match."""
    form = forms.read_form(request, RuleForm)
    rule = form.to_rule()
    try:
        if form.do == "preview":
            return _editor(rule, get_services().rules.preview(get_actor(), rule))
        get_services().rules.save(get_actor(), rule)
    except EventrError as e:
        return _editor(rule, error=e), e.http_status
    return _back()


@bp.post("/settings/rules/<int:rule_id>/move")
def move_rule(rule_id: int) -> Response:
    """Move a rule up or down."""
    by = forms.read_form(request, Move).by
    get_services().rules.move(get_actor(), rule_id, 1 if by == "down" else -1)
    return _back()


@bp.post("/settings/rules/<int:rule_id>/switch")
def switch_rule(rule_id: int) -> Response:
    """Switch a rule on or off."""
    get_services().rules.set_enabled(get_actor(), rule_id, forms.read_form(request, Switch).on)
    return _back()


@bp.post("/settings/rules/<int:rule_id>/delete")
def delete_rule(rule_id: int) -> Response:
    """Delete a rule; entries keep their marks."""
    forms.read_form(request, forms.Empty)
    get_services().rules.delete(get_actor(), rule_id)
    return _back()


@bp.get("/settings/rules/file")
def download_rules() -> Response:
    """Download all rules as JSON."""
    content = json.dumps(get_services().rules.export(get_actor()), ensure_ascii=False, indent=1)
    response = make_response(content.encode())
    response.headers["Content-Type"] = "application/json"
    response.headers["Content-Disposition"] = 'attachment; filename="eventr-rules.json"'
    return response


@bp.post("/settings/rules/file")
@takes_file("opml_max_bytes")
def upload_rules() -> Response | tuple[str, int]:
    """Add the rules of a file."""
    forms.read_form(request, forms.Empty)
    file = request.files.get("file")
    try:
        if file is None or not file.filename:
            raise InvalidError("Choose a file first.", field="file")
        added, missing = get_services().rules.import_rules(get_actor(), file.stream.read(FILE_MAX + 1))
    except EventrError as e:
        return _show_list(e), e.http_status
    words = ngettext("%(num)s rule added", "%(num)s rules added", added)
    if missing:
        words += ". " + ngettext(
            "%(num)s rule left out, because you don't have its feeds or service",
            "%(num)s rules left out, because you don't have their feeds or services",
            missing,
        )
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(words))
    return _back()


def _back() -> Response:
    return make_response(redirect("/settings/rules", 303))


@bp.post("/settings/rules/<int:rule_id>/run")
def run_rule(rule_id: int) -> Response | tuple[str, int]:
    """Begin to try a rule on past entries."""
    forms.read_form(request, forms.Empty)
    try:
        get_services().rule_runs.begin(get_actor(), rule_id)
    except ConflictError as e:
        return _show_list(e), e.http_status
    return make_response(redirect("/settings/rules#run", 303))


@bp.get("/settings/rules/run")
def show_run() -> str:
    """Show the progress of the last run, as a part of the page."""
    return render_page("parts/rule_run.html", run=get_services().rule_runs.find_run(get_actor()))


@bp.post("/settings/rules/run/undo")
def undo_run() -> Response:
    """Begin to undo a run."""
    get_services().rule_runs.undo(get_actor(), forms.read_form(request, Run).run)
    return make_response(redirect("/settings/rules#run", 303))
