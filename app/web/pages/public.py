"""What strangers see: the landing page, and whether the server is well."""

from __future__ import annotations

import json

from flask import Blueprint, Response, make_response, redirect

from app.web.context import services, user, web
from app.web.security.sessions import for_anybody, public
from app.web.view.render import template

bp = Blueprint("public", __name__)


@bp.get("/")
@public
def home() -> Response | str:
    """What this is; who is logged in goes straight to reading."""
    if user() is not None:
        return make_response(redirect("/read/all", 303))
    trends = services().trends.public(web().settings.landing_rows)
    return template("pages/landing.html", mode=services().sign_in.signup_mode(), trends=trends)


@bp.get("/healthz")
@for_anybody
def health() -> Response:
    """Answer that the process lives."""
    return Response("ok\n", content_type="text/plain; charset=utf-8")


@bp.get("/readyz")
@for_anybody
def ready() -> Response:
    """Answer whether the stores do: whoever balances the load sends people elsewhere until then."""
    missing = services().readiness.missing()
    text = json.dumps({"ready": not missing, "missing": missing}) + "\n"
    return Response(text, 503 if missing else 200, content_type="application/json")


@bp.get("/robots.txt")
@public
def robots() -> Response:
    """What people share is for search engines, where its owner wants that: each page says so itself."""
    return Response(
        "User-agent: *\nAllow: /@\nAllow: /static/\nDisallow: /\n", content_type="text/plain; charset=utf-8"
    )
