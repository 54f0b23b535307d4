"""Pages for visitors: the landing page, health checks, robots.txt."""

from __future__ import annotations

import json

from flask import Blueprint, Response, make_response, redirect

from app.web.context import find_user, get_services, get_web
from app.web.security.sessions import allow_strangers, for_anybody
from app.web.view.render import render_page

bp = Blueprint("public", __name__)


@bp.get("/")
@allow_strangers
def show_home() -> Response | str:
    """Show the landing page; redirect logged-in users to their entries."""
    if find_user() is not None:
        return make_response(redirect("/read/all", 303))
    trends = get_services().trends.list_public(get_web().settings.landing_rows)
    return render_page(
        "pages/landing.html",
        mode=get_services().sign_in.get_signup_mode(),
        trends=trends,
        base=get_web().base_url,
    )


@bp.get("/about")
@allow_strangers
def show_about() -> str:
    """Show who runs this server, what it stores, and how accessible it is."""
    settings = get_web().settings
    return render_page(
        "pages/about.html",
        base=get_web().base_url,
        contact=settings.contact,
        legal_url=settings.legal_url,
        privacy_url=settings.privacy_url,
        images=settings.images,
    )


@bp.get("/healthz")
@for_anybody
def check_health() -> Response:
    """Answer that the process is alive."""
    return Response("ok\n", content_type="text/plain; charset=utf-8")


@bp.get("/readyz")
@for_anybody
def check_ready() -> Response:
    """Answer whether the stores are reachable; load balancers use this to redirect traffic."""
    problems = get_services().readiness.find_problems()
    text = json.dumps({"ready": not problems, "missing": list(problems), "problems": problems}) + "\n"
    return Response(text, 503 if problems else 200, content_type="application/json")


@bp.get("/robots.txt")
@allow_strangers
def serve_robots() -> Response:
    """Allow search engines to visit the landing page and shared pages, with their pictures.

    Each shared page states whether its owner allows indexing.
    """
    allowed = ("/$", "/@", "/static/", "/favicon.ico", "/i/u/", "/a/")
    rules = "".join(f"Allow: {path}\n" for path in allowed)
    return Response(f"User-agent: *\n{rules}Disallow: /\n", content_type="text/plain; charset=utf-8")
