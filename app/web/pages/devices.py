"""Devices for push notifications: scripts register them; listing and removing works without scripts."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, jsonify, make_response, redirect, request
from flask_babel import gettext as _
from flask_babel import ngettext

from app.models.accounts.user import Notice
from app.web import forms
from app.web.context import get_actor, get_services, get_session, get_web
from app.web.errors import is_json_wanted
from app.web.forms import declare_text
from app.web.security.sessions import allow_strangers, get_client, get_csrf_token
from app.web.view import i18n

bp = Blueprint("devices", __name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """The fields of a browser's ``PushSubscription``."""

    endpoint: str = declare_text(max=4096)
    p256dh: str = declare_text(max=256)
    auth: str = declare_text(max=64)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OneDevice:
    device: int


@bp.get("/push.js")
@allow_strangers
def serve_worker() -> Response:
    """Serve the service worker at the root, since its scope is the folder of its address."""
    return Response(get_web().assets.worker, content_type="text/javascript; charset=utf-8")


@bp.get("/api/push")
def show_state() -> Response:
    """Return the data that the service worker needs when its browser gets a new push address."""
    key = get_services().push.get_public_key(get_actor())
    mine = any(
        device.session == get_session().key for device in get_services().push.list_devices(get_actor())
    )
    return jsonify(mine=mine, key=key, csrf=get_csrf_token())


@bp.post("/settings/devices/key")
def make_key() -> Response:
    """Return the key by which browsers identify this server; create it on the first request."""
    forms.read_form(request, forms.Empty)
    return jsonify(key=get_services().push.make_key(get_actor()))


@bp.post("/settings/devices")
def register() -> Response:
    """Send this user's push notifications to the device of this session."""
    form = forms.read_form(request, Subscription)
    device = get_services().push.register(
        get_actor(),
        get_session(),
        form.endpoint,
        form.p256dh,
        form.auth,
        agent=get_client().agent,
        language=i18n.get_language(),
    )
    return jsonify(device=device.id)


@bp.post("/settings/devices/remove")
def remove() -> Response:
    """Stop push notifications on a device."""
    get_services().push.remove(get_actor(), forms.read_form(request, OneDevice).device)
    return jsonify() if is_json_wanted() else _back(_("Device removed"))


@bp.post("/settings/devices/test")
def send_test() -> Response:
    """Send a test notification."""
    forms.read_form(request, forms.Empty)
    count = get_services().push.send_test(get_actor())
    if not count:
        return _back(_("No devices to notify"))
    words = ngettext(
        "Test notification sent to %(num)s device",
        "Test notification sent to %(num)s devices",
        count,
    )
    return _back(words)


def _back(words: str) -> Response:
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(words))
    return make_response(redirect("/settings/notifications#devices", 303))
