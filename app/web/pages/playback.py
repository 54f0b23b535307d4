"""Recordings: positions that all devices share, and the sites that may send recordings."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, jsonify, make_response, redirect, request

from app.web import forms
from app.web.context import get_actor, get_services
from app.web.errors import is_json_wanted
from app.web.forms import declare_text
from app.web.pages.settings import render_section

bp = Blueprint("playback", __name__)

#: Longest address of a recording, and longest name of a host with its port.
_URL, _SITE = 2048, 261


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    url: str = declare_text(max=_URL)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    entry: int
    url: str = declare_text(max=_URL)
    seconds: int
    duration: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    site: str = declare_text(max=_SITE)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    saved: bool = False


@bp.post("/playback/start")
def find_start() -> Response:
    """Return the second from which a recording continues."""
    form = forms.read_form(request, Recording)
    return jsonify(seconds=get_services().playback.find_start(get_actor(), form.url))


@bp.post("/playback")
def record() -> Response:
    """Store a position in a recording."""
    form = forms.read_form(request, Position)
    found = get_services().playback.record(
        get_actor(), form.entry, form.url, seconds=form.seconds, duration=form.duration
    )
    return jsonify(seconds=found.seconds)


@bp.post("/playback/sites")
def allow_site() -> Response:
    """Let recordings of a site play without a question."""
    form = forms.read_form(request, Site)
    get_services().playback.allow_site(get_actor(), form.site)
    return _saved()


@bp.post("/playback/sites/forget")
def forget_site() -> Response:
    """Ask again before a recording of a site plays."""
    form = forms.read_form(request, Site)
    get_services().playback.forget_site(get_actor(), form.site)
    return _saved()


def _saved() -> Response:
    if is_json_wanted():
        return jsonify(saved=True)
    return make_response(redirect("/settings/privacy?saved=1", 303))


@bp.get("/settings/privacy")
def show_privacy() -> str:
    """Show the privacy settings: the sites that may send recordings."""
    return render_section("privacy", saved=forms.read_query(request, Query).saved)
