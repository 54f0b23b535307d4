"""Rules for the full texts of sites: list, add, change, try on a page, delete."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, make_response, redirect, request
from flask_babel import gettext as _

from app.errors import EventrError, NotFoundError, get_page_message
from app.models.accounts.user import Notice
from app.models.reading.text_rules import TextRule
from app.services.reading.text_rules import ADDRESS_MAX, SELECTOR_MAX
from app.web import forms
from app.web.context import get_actor, get_services, get_session
from app.web.forms import declare_text
from app.web.view.render import render_page

bp = Blueprint("texts", __name__)

PAGE = "/admin/texts"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NewRule:
    host: str = declare_text(max=ADDRESS_MAX, default="")
    content: str = declare_text(max=SELECTOR_MAX, default="")
    remove: str = declare_text(max=SELECTOR_MAX, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TrialForm:
    address: str = declare_text(max=ADDRESS_MAX, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    #: The rule that is being changed.
    edit: int = 0


@bp.get("/texts")
def show_rules() -> str:
    """Show all rules with their last trials, and a form: for a new rule, or for one that is changed."""
    return _show(editing=forms.read_query(request, Asked).edit)


def _show(error: EventrError | None = None, typed: NewRule | None = None, editing: int = 0) -> str:
    rules = get_services().text_rules.list_rules(get_actor())
    edited = next((rule for rule in rules if rule.id == editing), None)
    if edited and not typed:
        typed = NewRule(host=edited.host, content=edited.content, remove=edited.remove)
    return render_page(
        "pages/admin/texts.html",
        rules=rules,
        error=error,
        typed=typed or NewRule(),
        edited=edited,
        describe=lambda word: _(get_page_message(word)),
    )


@bp.post("/texts")
def add_rule() -> Response | tuple[str, int]:
    """Add a rule."""
    form = forms.read_form(request, NewRule)
    try:
        rule = get_services().text_rules.add(get_actor(), form.host, form.content, form.remove)
    except EventrError as e:
        return _show(e, form), e.http_status
    # Else the browser would go to the form again, as the address it was sent to says.
    return make_response(redirect(f"{PAGE}#rule-{rule.id}", 303))


@bp.post("/texts/<int:rule_id>")
def change_rule(rule_id: int) -> Response | tuple[str, int]:
    """Change a rule, and try it again."""
    form = forms.read_form(request, NewRule)
    try:
        rule = get_services().text_rules.update(get_actor(), rule_id, form.host, form.content, form.remove)
    except NotFoundError:
        raise
    except EventrError as e:
        return _show(e, form, rule_id), e.http_status
    _say_if_waiting(rule)
    return make_response(redirect(f"{PAGE}#rule-{rule_id}", 303))


@bp.post("/texts/<int:rule_id>/try")
def try_rule(rule_id: int) -> Response | tuple[str, int]:
    """Try a rule on a page."""
    form = forms.read_form(request, TrialForm)
    try:
        rule = get_services().text_rules.request_trial(get_actor(), rule_id, form.address)
    except NotFoundError:
        raise
    except EventrError as e:
        return _show(e), e.http_status
    _say_if_waiting(rule)
    return make_response(redirect(f"{PAGE}#rule-{rule_id}", 303))


def _say_if_waiting(rule: TextRule) -> None:
    if rule.trial and not rule.trial.is_over:
        words = _("Eventr is fetching the page. Reload this page in a few seconds.")
        get_services().accounts.add_notice(get_actor(), get_session(), Notice(words))


@bp.post("/texts/<int:rule_id>/delete")
def delete_rule(rule_id: int) -> Response:
    """Delete a rule."""
    forms.read_form(request, forms.Empty)
    get_services().text_rules.delete(get_actor(), rule_id)
    return _back()


def _back() -> Response:
    return make_response(redirect(PAGE, 303))
