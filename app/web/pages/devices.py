"""Devices on which somebody is told of things: registered by a script, listed and removed without one."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, jsonify, make_response, redirect, request
from flask_babel import gettext as _
from flask_babel import ngettext

from app.models.accounts.user import Notice
from app.web import forms
from app.web.context import actor, services, session, web
from app.web.errors import wants_json
from app.web.forms import text
from app.web.security.sessions import client, csrf_token, public
from app.web.view import i18n

bp = Blueprint("devices", __name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What a browser's ``PushSubscription`` holds."""

    endpoint: str = text(max=4096)
    p256dh: str = text(max=256)
    auth: str = text(max=64)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class One:
    device: int


@bp.get("/push.js")
@public
def worker() -> Response:
    """The service worker; at the root, as its scope is the folder it lies in."""
    return Response(web().assets.worker, content_type="text/javascript; charset=utf-8")


@bp.get("/api/push")
def state() -> Response:
    """What the service worker needs when its browser gets another address."""
    key = services().push.public_key(actor())
    mine = any(device.session == session().key for device in services().push.devices(actor()))
    return jsonify(mine=mine, key=key, csrf=csrf_token())


@bp.post("/settings/devices/key")
def key() -> Response:
    """The key by which browsers know this server, made when the first one asks."""
    forms.form(request, forms.Empty)
    return jsonify(key=services().push.make_key(actor()))


@bp.post("/settings/devices")
def register() -> Response:
    """Tell who asks on the device of this session from now on."""
    form = forms.form(request, Subscription)
    device = services().push.register(
        actor(),
        session(),
        form.endpoint,
        form.p256dh,
        form.auth,
        agent=client().agent,
        language=i18n.language(),
    )
    return jsonify(device=device.id)


@bp.post("/settings/devices/remove")
def remove() -> Response:
    """Tell him there no more."""
    services().push.remove(actor(), forms.form(request, One).device)
    return jsonify() if wants_json() else _back(_("Device removed"))


@bp.post("/settings/devices/test")
def test() -> Response:
    """Send something to see whether it comes."""
    forms.form(request, forms.Empty)
    count = services().push.test(actor())
    if not count:
        return _back(_("There is no device to tell"))
    words = ngettext(
        "A notification is on its way to %(num)s device",
        "A notification is on its way to %(num)s devices",
        count,
    )
    return _back(words)


def _back(words: str) -> Response:
    services().accounts.notify(actor(), session(), Notice(words))
    return make_response(redirect("/settings/notifications#devices", 303))
