"""Self-test of a reverse proxy: which parts of a request arrive, tested by a browser, a script or a person.

The test looks up and stores nothing. Answers never repeat the sent data, only whether it arrived intact.
"""

from __future__ import annotations

import secrets
from urllib.parse import urlsplit

from flask import Blueprint, Response, jsonify, make_response, request

from app.models.operations.proxy_probes import (
    AUTHORIZATION,
    BODY,
    BY_NAME,
    ETAG,
    FORGED,
    PATH,
    PROBES,
    QUERY,
    Probe,
)
from app.web.context import get_web
from app.web.security import hosts
from app.web.security.headers import LOOPBACK
from app.web.security.sessions import allow_strangers, for_programs
from app.web.view.render import render_page

bp = Blueprint("check", __name__, url_prefix="/check")

_CHUNK = 1 << 16
_PORTS = {"http": 80, "https": 443}
#: Headers that proxies add. Without them, a request came directly or through a proxy that adds none.
_FORWARDED = ("X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "Forwarded", "Via")


@bp.get("")
@allow_strangers
def show_check() -> str:
    """Show the properties of this request, and all probes."""
    return render_page(
        "pages/check.html", seen=_seen(), probes=PROBES, size=get_probe_size, targets=_targets()
    )


@bp.get("/compatibility")
@for_programs
def list_probes() -> Response:
    """Return the same for scripts: the properties of this request, and the probes to try."""
    probes = [
        {
            "name": probe.name,
            "method": probe.method,
            "path": target,
            "headers": dict(probe.headers),
            "bytes": get_probe_size(probe),
            "twice": probe.twice,
            "again": probe.again,
        }
        for probe, target in _targets()
    ]
    seen = _seen()
    return jsonify(ok=seen["agrees"], **seen, probes=probes)


def get_probe_size(probe: Probe) -> int:
    """Return the size of a probe's body in bytes, limited to the API's maximum."""
    return min(probe.size, get_web().settings.api_max_bytes)


def _targets() -> list[tuple[Probe, str]]:
    # Without scripts, the browser's address is unknown; use the address of this request.
    origin = f"{request.scheme}://{hosts.get_request_host(request)}"
    return [(probe, probe.build_path(origin)) for probe in PROBES]


def _seen() -> dict[str, object]:
    settings = get_web().settings
    return {
        "scheme": request.scheme,
        "host": hosts.get_request_host(request),
        "base_url": get_web().base_url,
        "agrees": _same(f"{request.scheme}://{hosts.get_request_host(request)}", get_web().base_url),
        "secure_cookies": get_web().secure,
        "trusted_proxies": settings.trusted_proxies,
        "forwarded": any(name in request.headers for name in _FORWARDED),
        "ignored": hosts.count_ignored_addresses(request, settings),
    }


def _same(one: str, other: str) -> bool:
    """Return whether two origins are equal; all names of this machine count as equal."""
    return _place(one) == _place(other)


def _place(origin: str) -> tuple[str, str, int | None] | None:
    try:
        parts = urlsplit(origin)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    name = parts.hostname or ""
    return parts.scheme, "localhost" if name in LOOPBACK else name, port


@bp.get("/origin")
@for_programs
def probe_origin() -> Response:
    """Check that the client's, the configured and the received address match; some proxies drop the port."""
    named = request.args.get("origin", "")
    wanted, arrived = _place(named), _place(f"{request.scheme}://{hosts.get_request_host(request)}")
    if wanted is None or arrived is None:
        return _said("origin", False)
    return _said("origin", _same(named, get_web().base_url) and wanted[:2] == arrived[:2])


@bp.get("/secure")
@for_programs
def probe_secure() -> Response:
    """Check that cookies are sent by HTTPS only; on this machine itself, HTTP is fine too."""
    place = _place(request.args.get("origin", ""))
    local = place is not None and place[1] == "localhost" and not get_web().secure
    https = place is not None and place[0] == "https" and request.is_secure and get_web().secure
    return _said("secure", local or https)


@bp.get("/slash")
@for_programs
def probe_slash() -> Response:
    """Check a path with a slash at its end."""
    return _said("slash", True)


@bp.get("/path/<path:name>")
@for_programs
def probe_path(name: str) -> Response:
    """Check that an escaped slash arrives escaped."""
    return _said("path", name == PATH)


@bp.get("/query")
@for_programs
def probe_query() -> Response:
    """Check that a query string arrives unchanged."""
    return _said("query", request.args.getlist("q") == [QUERY] and request.args.get("n") == "2")


@bp.get("/authorization")
@for_programs
def probe_authorization() -> Response:
    """Check that the Authorization header arrives; the answer never repeats it."""
    return _said("authorization", request.headers.get("Authorization") == AUTHORIZATION)


@bp.get("/body")
@for_programs
def show_body_button() -> str:
    """Show a button that sends a body of full size, for browsers without scripts."""
    return render_page(
        "pages/check_body.html", probe=BY_NAME["body"], filling="x" * get_probe_size(BY_NAME["body"])
    )


@bp.post("/body")
@for_programs
def probe_body() -> Response:
    """Check that a large body arrives completely; count it and discard it."""
    request.max_content_length = get_web().settings.api_max_bytes + _CHUNK
    count = 0
    while chunk := request.stream.read(_CHUNK):
        count += len(chunk)
    return _said("body", count >= min(BODY, get_web().settings.api_max_bytes))


@bp.get("/etag")
@for_programs
def probe_etag() -> Response:
    """Answer 304 if the client sends the ETag; a compressing proxy may turn the ETag into a weak one."""
    if request.if_none_match.contains_weak(ETAG):
        response = Response(status=304)
    else:
        response = _said("etag", True)
    response.set_etag(ETAG)
    return response


@bp.get("/fresh")
@for_programs
def probe_fresh() -> Response:
    """Return a different answer each time."""
    return _said("fresh", True, token=secrets.token_hex(8))


@bp.get("/forwarded")
@for_programs
def probe_forwarded() -> Response:
    """Check that a forged client address isn't trusted."""
    return _said("forwarded", request.remote_addr != FORGED)


def _said(name: str, ok: bool, token: str = "") -> Response:
    """Answer with JSON, or with a page if a person followed a link."""
    if "text/html" in request.headers.get("Accept", ""):
        return make_response(render_page("pages/check_one.html", probe=BY_NAME[name], ok=ok, token=token))
    return jsonify({"ok": ok, **({"token": token} if token else {})})
