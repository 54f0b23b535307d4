"""Settings → Send to: services that entries are sent to; and the page that sends one entry."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from flask import Blueprint, Response, make_response, redirect, request
from flask_babel import gettext as _

from app import clock
from app.errors import N_, ConflictError, EventrError, InvalidError
from app.models.accounts.user import Notice
from app.models.reading.targets import DeliveryState, Occasion, TargetKind
from app.web import forms
from app.web.context import get_actor, get_services, get_session
from app.web.forms import declare_text
from app.web.pages.settings import render_section
from app.web.view.render import render_page

bp = Blueprint("sending", __name__)

PAGE = "/settings/sending"


class KindWords(NamedTuple):
    """What a kind of service is, and what to enter for it."""

    name: str
    about: str
    address: str
    secret: str
    secret_hint: str
    change: str = N_("Change access token")


_SERVER = N_("The address of your server.")
_TOKEN, _TOKEN_OPTIONAL = N_("Access token"), N_("Access token (optional)")
KINDS: dict[TargetKind, KindWords] = {
    TargetKind.WEBHOOK: KindWords(
        N_("Webhook"),
        N_("Each entry goes to an address of yours, as JSON."),
        N_("Any address that accepts JSON."),
        N_("Secret (optional)"),
        N_("Signs each message, so that the receiver knows who sent it."),
        N_("Change secret"),
    ),
    TargetKind.NTFY: KindWords(
        "ntfy",
        N_("Each entry becomes a notification on your phone or computer."),
        N_("The address of a topic, such as https://ntfy.sh/my-topic."),
        _TOKEN_OPTIONAL,
        N_("Only for topics that need a login."),
    ),
    TargetKind.GOTIFY: KindWords(
        "Gotify",
        N_("Each entry becomes a notification from your own server."),
        _SERVER,
        _TOKEN,
        N_("Create an application in Gotify, under “Apps”, and copy its token here."),
    ),
    TargetKind.READECK: KindWords(
        "Readeck",
        N_("The page of each entry is kept, to be read later."),
        _SERVER,
        _TOKEN,
        N_("Create one in Readeck, under “API tokens” of your profile, and copy it here."),
    ),
    TargetKind.LINKDING: KindWords(
        "Linkding",
        N_("The page of each entry becomes a bookmark."),
        _SERVER,
        _TOKEN,
        N_("Copy it in Linkding, under “Integrations” of the settings."),
    ),
}
#: The sentences of error words; others are HTTP statuses.
_ERRORS: dict[str, str] = {
    "unreachable": N_("The service doesn't respond."),
    "tls_failed": N_("The certificate of the service isn't valid, so nothing was sent."),
    "no_page": N_("The entry has no page, and the service keeps only addresses."),
    "secret": N_(
        "The secret or access token can't be read anymore. Enter it again from the menu of the service."
    ),
    "entry_gone": N_("The entry is gone."),
    "http_401": N_("The service doesn't accept the secret or access token."),
    "http_403": N_("The service doesn't accept the secret or access token."),
    "http_404": N_("The service isn't at this address."),
}
#: Errors that another address may mend, besides redirects; and those that another secret may mend.
_ADDRESS_ERRORS = frozenset({"unreachable", "tls_failed", "http_404"})
_SECRET_ERRORS = frozenset({"secret", "http_401", "http_403"})
_STATES = {
    DeliveryState.WAITING: N_("waiting"),
    DeliveryState.SENT: N_("sent"),
    DeliveryState.FAILED: N_("failed"),
}
_OCCASIONS = {
    Occasion.RULE: N_("by a rule"),
    Occasion.KEY: N_("by hand"),
    Occasion.STAR: N_("starred"),
    Occasion.SHARE: N_("shared"),
    Occasion.TEST: N_("test"),
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NewTarget:
    kind: str = declare_text(max=16, one_of=("", *(kind.value for kind in TargetKind)))
    address: str = declare_text(max=4096, default="")
    secret: str = declare_text(max=2048, default="")
    name: str = declare_text(max=256, default="")
    star: bool = False
    share: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    #: The service whose secret is being changed, or whose address.
    secret: int = 0
    address: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NewSecret:
    secret: str = declare_text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NewAddress:
    address: str = declare_text(max=4096, default="")
    secret: str = declare_text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    on: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SendForm:
    target: int


def describe_error(word: str) -> str:
    """Return the sentence of an error word of a delivery."""
    if word in _ERRORS:
        return str(_(_ERRORS[word]))
    if word.startswith("http_3"):
        return str(_("The service has moved. Enter its new address."))
    status = word.removeprefix("http_")
    return str(_("The service answers with HTTP status %(status)s.", status=status))


def find_mend(word: str) -> str:
    """Return what may mend an error: ``address``, ``secret``, or neither, which is empty."""
    if word in _ADDRESS_ERRORS or word.startswith("http_3"):
        return "address"
    return "secret" if word in _SECRET_ERRORS else ""


@bp.get(PAGE)
def show_targets() -> str:
    """Show the services with their last results, and the latest deliveries."""
    asked = forms.read_query(request, Asked)
    return _show(changing=asked.address or asked.secret, part="address" if asked.address else "secret")


def _show(
    error: EventrError | None = None,
    typed: NewTarget | None = None,
    changing: int = 0,
    part: str = "",
    address: str | None = None,
) -> str:
    """Render the page.

    Args:
        typed: in the form of a new service.
        changing: the service whose ``part``, its secret or its address, is being changed.
        address: as typed there; None: as stored.
    """
    sending, actor = get_services().sending, get_actor()
    targets = sending.list_targets(actor)
    return render_section(
        "sending",
        targets=targets,
        kinds=KINDS,
        needed=(_TOKEN,),
        names={one.id: one.name for one in targets},
        deliveries=sending.list_deliveries(actor) if targets else (),
        states=_STATES,
        occasions=_OCCASIONS,
        describe=describe_error,
        error=error,
        typed=typed or NewTarget(kind=""),
        changing=changing,
        part=part,
        address=address,
        find_mend=find_mend,
    )


@bp.post(PAGE)
def add() -> Response | tuple[str, int]:
    """Add a service."""
    form = forms.read_form(request, NewTarget)
    chosen = {Occasion.STAR: form.star, Occasion.SHARE: form.share}
    try:
        if not form.kind:
            raise InvalidError("Choose a service.", field="kind")
        target = get_services().sending.add(
            get_actor(),
            TargetKind(form.kind),
            form.address,
            name=form.name,
            secret=form.secret,
            on=[occasion for occasion, is_on in chosen.items() if is_on],
        )
    except EventrError as e:
        return _show(e, form), e.http_status
    return _back(_("“%(name)s” was added. Send a test message to it.", name=target.name))


@bp.post(f"{PAGE}/<int:target_id>/test")
def test(target_id: int) -> Response | tuple[str, int]:
    """Send a test message."""
    forms.read_form(request, forms.Empty)
    try:
        target = get_services().sending.test(get_actor(), target_id)
    except EventrError as e:
        if e.http_status == 404:
            raise
        return _show(e), e.http_status
    return _back(describe_error(target.error) if target.error else _("The test message is on its way."))


@bp.post(f"{PAGE}/<int:target_id>/retry")
def retry(target_id: int) -> Response | tuple[str, int]:
    """Send again what a service didn't get."""
    forms.read_form(request, forms.Empty)
    start = clock.now()
    try:
        target = get_services().sending.retry(get_actor(), target_id)
    except EventrError as e:
        if e.http_status == 404:
            raise
        return _show(e), e.http_status
    if not target.tried_at or target.tried_at < start:
        return _back(_("It is being sent again."))
    return _back(describe_error(target.error) if target.error else _("Sent to “%(name)s”.", name=target.name))


@bp.post(f"{PAGE}/<int:target_id>/switch")
def switch_target(target_id: int) -> Response:
    """Switch a service on or off."""
    get_services().sending.set_enabled(get_actor(), target_id, forms.read_form(request, Switch).on)
    return make_response(redirect(PAGE, 303))


@bp.post(f"{PAGE}/<int:target_id>/secret")
def change_secret(target_id: int) -> Response | tuple[str, int]:
    """Replace the secret of a service."""
    form = forms.read_form(request, NewSecret)
    try:
        target = get_services().sending.change_secret(get_actor(), target_id, form.secret)
    except (InvalidError, ConflictError) as e:
        return _show(e, changing=target_id, part="secret"), e.http_status
    return _back(_("The secret of “%(name)s” was changed. Send a test message to it.", name=target.name))


@bp.post(f"{PAGE}/<int:target_id>/address")
def change_address(target_id: int) -> Response | tuple[str, int]:
    """Replace the address of a service, and its secret."""
    form = forms.read_form(request, NewAddress)
    try:
        target = get_services().sending.change_address(get_actor(), target_id, form.address, form.secret)
    except (InvalidError, ConflictError) as e:
        return _show(e, changing=target_id, part="address", address=form.address), e.http_status
    return _back(_("The address of “%(name)s” was changed. Send a test message to it.", name=target.name))


@bp.post(f"{PAGE}/<int:target_id>/delete")
def delete(target_id: int) -> Response:
    """Delete a service."""
    forms.read_form(request, forms.Empty)
    get_services().sending.remove(get_actor(), target_id)
    return _back(_("The service was deleted. Entries that were waiting aren't sent."))


def _back(words: str) -> Response:
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(words))
    return make_response(redirect(PAGE, 303))


@bp.get("/entries/<int:entry_id>/send")
def show_entry(entry_id: int) -> str:
    """Show the services that an entry can be sent to, and where it was sent."""
    return _show_entry(entry_id)


def _show_entry(entry_id: int, error: EventrError | None = None) -> str:
    services, actor = get_services(), get_actor()
    article = services.reading.get_article(actor, entry_id)
    targets = services.sending.list_targets(actor)
    deliveries = services.sending.list_deliveries(actor, entry_id)
    return render_page(
        "pages/send.html",
        entry=article.entry,
        article=article,
        targets=[one for one in targets if one.enabled],
        kinds=KINDS,
        names={one.id: one.name for one in targets},
        deliveries=deliveries,
        latest={one.target_id: one for one in reversed(deliveries)},
        states=_STATES,
        occasions=_OCCASIONS,
        describe=describe_error,
        error=error,
    )


@bp.post("/entries/<int:entry_id>/send")
def send(entry_id: int) -> Response | tuple[str, int]:
    """Send an entry to a service."""
    form = forms.read_form(request, SendForm)
    try:
        target = get_services().sending.send(get_actor(), entry_id, form.target)
    except EventrError as e:
        if e.http_status == 404:
            raise
        return _show_entry(entry_id, e), e.http_status
    words = _("The entry is being sent to “%(name)s”.", name=target.name)
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(words))
    return make_response(redirect(f"/entries/{entry_id}", 303))
