"""Forms with a file are received without a thread (W17): each such route accepts or refuses first."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from flask import Flask

from app.bootstrap.services import Services
from app.commands.spool import is_form
from app.config import Settings
from app.models.accounts.actor import Role
from app.models.media.spooled import WANTED
from tests.support.reader import add_user
from tests.web.conftest import ORIGIN, Visitor, is_for_apps

_TYPE = "multipart/form-data; boundary=x"


def _is_received(path: str) -> bool:
    return is_form(f"POST {path} HTTP/1.1\r\nContent-Type: {_TYPE}\r\n".encode())


def _list_routes(app: Flask) -> list[tuple[str, str]]:
    """Return endpoint and an example path of all routes for POST."""
    rules = [rule for rule in app.url_map.iter_rules() if "POST" in (rule.methods or ())]
    return [(rule.endpoint, re.sub(r"<[^>]*>", "1", rule.rule)) for rule in rules]


def test_W17_all_forms_with_a_file_are_received_by_the_loop(app: Flask) -> None:
    takes_file = [
        path
        for endpoint, path in _list_routes(app)
        if getattr(app.view_functions[endpoint], "takes_file", False)
    ]
    assert len(takes_file) >= 3
    assert [path for path in takes_file if not _is_received(path)] == []


def test_W17_no_program_s_request_is_taken_for_such_a_form(app: Flask) -> None:
    """Programs' requests pass the guard of forms, and nobody would accept the body."""
    assert not [path for endpoint, path in _list_routes(app) if is_for_apps(endpoint) and _is_received(path)]


@pytest.mark.parametrize(
    ("size", "headers", "status", "accepted"),
    [
        (200_000, {}, 204, [200_000]),
        (200_000, {"Sec-Fetch-Site": "cross-site"}, 403, []),
        (200_000, {"Cookie": ""}, 401, []),
        (Settings().opml_max_bytes + Settings().max_request_bytes + 1, {}, 413, []),
    ],
)
def test_W16_W17_a_form_is_accepted_or_refused_before_it_arrives(
    services: Services,
    visitor: Callable[[], Visitor],
    size: int,
    headers: dict[str, str],
    status: int,
    accepted: list[int],
) -> None:
    add_user(services, "ann", Role.ADMIN)
    ann = visitor()
    ann.log_in()
    client = ann.client if "Cookie" not in headers else visitor().client
    calls: list[int] = []
    for path in ("/imports", "/packs"):
        answer = client.post(
            path,
            headers={**ORIGIN, **headers},
            content_type=_TYPE,
            environ_overrides={WANTED: calls.append, "CONTENT_LENGTH": str(size)},
        )
        assert answer.status_code == status
    assert calls == accepted * 2
    assert services.store.database.imports.count_documents({}) == 0
