"""Input: unknown fields, operators of the store, sizes, hosts, ``next``: W09, W10, W14, W15, W16."""

from __future__ import annotations

import dataclasses
import io
import re
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from werkzeug.test import create_environ, run_wsgi_app

from app import create_app
from app.bootstrap.services import Services
from app.web.security.redirects import get_safe_next
from tests.support.reader import PASSWORD, add_user
from tests.web.conftest import ORIGIN, Visitor
from tests.web.test_csrf import FOR_PROGRAMS, rules

Make = Callable[[], Visitor]


@pytest.mark.parametrize(
    "target",
    ["//e", "/\\e", "\\e", "///e", "/%09/e", "/\t/e", "https:e", "http://base.evil", "javascript:alert(1)",
     "/a\r\nX:", "/a\nb", "", None, "read", "/%0d%0aX: y", "/ü", " /x", "/x y"],
)  # fmt: skip
def test_W09_next_never_leads_away(target: str | None) -> None:
    assert get_safe_next(target) == "/read/all"


@pytest.mark.parametrize("target", ["/", "/feeds?x=1#y", "/read/feed/17?entry=3&sort=newest", "/a%20b"])
def test_W09_next_leads_to_paths_of_ours(target: str) -> None:
    assert get_safe_next(target) == target


def test_W09_log_in_goes_on_to_a_path_only(services: Services, visitor: Make) -> None:
    add_user(services)
    for sent, reached in (("//evil.example", "/read/all"), ("/folders", "/folders")):
        done = visitor().post("/login", {"login": "ann", "password": PASSWORD, "next": sent})
        assert done.headers["Location"] == reached


def test_W09_a_page_that_needs_a_log_in_is_returned_to(visitor: Make) -> None:
    assert (
        visitor().get("/read/feed/17?entry=3").headers["Location"] == "/login?next=/read/feed/17%3Fentry%3D3"
    )


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil:80",
        "[::2]",
        "[::1",
        "localhost,evil",
        "localhost@evil",
        "localhost:x",
        "localhost/evil",
        "evil#localhost",
        "127.0.0.1:80:evil",
    ],
)
def test_W10_other_names_are_refused(app: Flask, host: str) -> None:
    for path in ("/", "/login", "/static/x", "/nope"):
        answer = app.test_client().get(path, headers={"Host": host})
        assert answer.status_code == 400
        assert "evil" not in answer.text
        assert "Content-Security-Policy" in answer.headers


@pytest.mark.parametrize("path", ["/", "/login", "/static/x", "/nope", "/healthz"])
@pytest.mark.parametrize("host", [None, ""])
def test_W10_a_request_without_a_host_is_refused(app: Flask, path: str, host: str | None) -> None:
    environ = create_environ(path)
    del environ["HTTP_HOST"]
    if host is not None:
        environ["HTTP_HOST"] = host
    _, status, _ = run_wsgi_app(app, environ)
    assert status.startswith("400")


@pytest.mark.parametrize("host", ["[::1]:8080", "[::1]", "localhost"])
def test_W10_an_ipv6_address_can_be_listened_on(services: Services, host: str) -> None:
    own = dataclasses.replace(services.settings, host="::1", port=8080)
    app = create_app(own, services)
    assert app.extensions["eventr"].base_url == "http://[::1]:8080"
    assert app.test_client().get("/", headers={"Host": host}).status_code == 200


def test_W10_a_public_name_is_the_only_one(services: Services) -> None:
    own = dataclasses.replace(services.settings, base_url="https://reader.example")
    client = create_app(own, services).test_client()
    assert client.get("/", headers={"Host": "reader.example"}).status_code == 200
    assert client.get("/", headers={"Host": "localhost"}).status_code == 400


@pytest.mark.parametrize("name", ["my_reader:8663", "xn--bcher-kva.example", "reader.example."])
def test_W10_a_name_that_settings_take_is_served(services: Services, name: str) -> None:
    add_user(services)
    own = dataclasses.replace(services.settings, base_url=f"http://{name}")
    client = create_app(own, services).test_client()
    assert client.get("/healthz", headers={"Host": name}).status_code == 200
    page = client.get("/login", headers={"Host": name}).text
    form = {"login": "ann", "password": PASSWORD, "csrf_token": _shown(page)}
    told = {"Host": name, "Origin": f"http://{name}"}  # over plain HTTP browsers say no more
    assert client.post("/login", data=form, headers=told).status_code == 303
    told["Origin"] = "http://evil.example"
    assert client.post("/login", data=form, headers=told).status_code == 403


def _shown(page: str) -> str:
    return re.findall(r'name="csrf_token" value="([^"]+)"', page)[0]


def test_W10_forwarded_addresses_count_behind_trusted_proxies_alone(services: Services) -> None:
    add_user(services)
    for proxies, network in ((0, "127.0.0.0/24"), (1, "203.0.113.0/24")):
        own = dataclasses.replace(services.settings, trusted_proxies=proxies)
        one = Visitor(create_app(own, services).test_client())
        one.post(
            "/login", {"login": "ann", "password": PASSWORD}, X_Forwarded_For="198.51.100.7, 203.0.113.9"
        )
        assert network in one.get("/settings/sessions").text


def test_W10_links_to_hand_on_hold_the_public_address(services: Services, visitor: Make) -> None:
    from app.models.accounts.actor import Role

    add_user(services, "root", Role.ADMIN)
    admin = visitor()
    admin.log_in("root")
    link = admin.post("/admin/invites", X_Forwarded_Host="evil.example").text
    assert f"http://{services.settings.host}:{services.settings.port}/signup?invite=" in link
    assert "evil" not in link


_SMUGGLED = ("is_admin", "role", "quota", "_id", "user_id", "$set", "admin[$ne]")


def test_W14_unknown_fields_change_nothing_anywhere(app: Flask, ann: Visitor, db: Any) -> None:
    # Who is no hub is sent away there, whatever he sends.
    wanted = {path: FOR_PROGRAMS.get(rule.endpoint, 400) for rule, path in rules(app, "POST")}
    wanted |= {path: 404 for path in wanted if path.startswith("/admin")}
    wanted |= {path: 412 for path in wanted if path.startswith("/uploads")}  # they take no forms
    for path in sorted(wanted, key="/logout".__eq__):
        for name in _SMUGGLED:
            answer = ann.client.post(
                path, data={"csrf_token": ann.token("/add"), name: "admin"}, headers=ORIGIN
            )
            assert answer.status_code == wanted[path], (path, name)
    (user,) = db.users.find()
    assert user["role"] == "user"
    assert not {"is_admin", "quota"} & user.keys()
    assert db.sessions.count_documents({}) == 1


def test_W14_sign_up_makes_no_admin_by_a_hidden_field(services: Services, visitor: Make, db: Any) -> None:
    add_user(services)
    form = {"email": "e@example.org", "name": "eve", "password": PASSWORD, "role": "admin"}
    assert visitor().post("/signup", form).status_code == 400
    del form["role"]
    assert visitor().post("/signup", form).status_code == 303
    assert db.users.find_one({"name": "eve"})["role"] == "user"


_OPERATORS = [
    '{"$ne":null}',
    "$where",
    "1; return true",
    "-1",
    "1e9",
    "99999999999999999999",
    "٣",
    "0x10",
    " 1",
    "\x00",
]


@pytest.mark.parametrize("value", _OPERATORS)
def test_W15_ids_are_numbers_or_nothing(ann: Visitor, value: str) -> None:
    for path, form in (
        ("/entries/mark", {"entry": value, "read": "1"}),
        ("/entries/star", {"entry": value, "on": "1"}),
        ("/folders/move", {"feed": value, "folder": ""}),
        ("/read/mark-all", {"stream": f"feed/{value}", "snapshot": "x"}),
        ("/refresh", {"stream": value}),
    ):
        assert ann.post(path, form).status_code == 400, path
    assert ann.get("/read/all", query_string={"entry": value}).status_code == 400
    assert ann.get(f"/read/feed/{value.strip()}x").status_code == 404


def test_W15_fields_with_brackets_never_reach_the_store(ann: Visitor, visitor: Make) -> None:
    for form in ({"login[$ne]": "", "password": "x"}, {"login": "ann", "password[$gt]": ""}):
        assert visitor().post("/login", form).status_code == 400
    assert visitor().post("/login", {"login": '{"$ne": null}', "password": PASSWORD}).status_code == 401
    assert ann.post("/undo", {"token": '{"$ne":null}'}).status_code == 404


def test_W15_a_field_that_comes_twice_is_refused(ann: Visitor) -> None:
    assert ann.post("/folders", {"name": ["a", "b"]}).status_code == 400


def test_W15_a_statement_of_the_store_ends_by_itself(services: Services) -> None:
    assert services.store.database.client.options.timeout == 5


def test_W16_large_bodies_are_refused_unread(app: Flask, ann: Visitor) -> None:
    class Endless(io.RawIOBase):
        """A gigabyte that nobody must read."""

        taken = 0

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            self.taken += len(buffer)
            return len(buffer)

    environ = create_environ("/login", method="POST", headers=ORIGIN)
    body = Endless()
    environ |= {
        "wsgi.input": body,
        "CONTENT_LENGTH": str(1 << 30),
        "CONTENT_TYPE": "application/x-www-form-urlencoded",
    }
    _, status, headers = run_wsgi_app(app, environ)
    assert status.startswith("413")
    assert "Content-Security-Policy" in headers
    assert body.taken < 1 << 21


@pytest.mark.parametrize("size", [64 << 10, (64 << 10) + 1])
def test_W16_no_form_is_longer_than_64_kib(ann: Visitor, size: int) -> None:
    token = ann.token("/add")
    body = f"csrf_token={token}&name=".encode().ljust(size, b"x")
    answer = ann.client.post(
        "/folders", data=body, content_type="application/x-www-form-urlencoded", headers=ORIGIN
    )
    assert answer.status_code == (400 if size == 64 << 10 else 413)


@pytest.mark.parametrize("length", [None, "20"])
def test_W16_chunks_are_refused_unread(app: Flask, length: str | None) -> None:
    environ = create_environ("/login", method="POST", headers=ORIGIN)
    environ |= {
        "wsgi.input": None,
        "wsgi.input_terminated": True,
        "HTTP_TRANSFER_ENCODING": "chunked",
        "CONTENT_TYPE": "application/x-www-form-urlencoded",
    }
    if length:
        environ["CONTENT_LENGTH"] = length
    _, status, _ = run_wsgi_app(app, environ)
    assert status.startswith("411")


def test_a_form_that_is_too_large_leads_back_to_its_page(ann: Visitor) -> None:
    answer = ann.client.post("/people/follow", data={"name": "x" * (70 << 10)}, headers=ORIGIN)
    assert answer.status_code == 413
    assert "larger than 64 KB" in answer.text
    assert '<a class="btn wide primary" href="/people">Go back</a>' in answer.text


def test_W16_many_fields_and_parts_are_refused(ann: Visitor) -> None:
    token = ann.token("/add")
    many = {"csrf_token": token, "entry": ["1"] * 100_000, "read": "1"}
    assert ann.client.post("/entries/mark", data=many, headers=ORIGIN).status_code == 413
    head = b"--b\r\nContent-Disposition: form-data; name=a; filename=b\r\n\r\n\r\n"
    for parts in (1, 1_000):
        body = head * parts + b"--b--\r\n"
        answer = ann.client.post(
            "/add", data=body, content_type="multipart/form-data; boundary=b", headers=ORIGIN
        )
        assert answer.status_code == 400


def test_W16_each_text_has_a_longest_length(ann: Visitor) -> None:
    assert ann.post("/folders", {"name": "x" * 129}).status_code == 400
    assert ann.post("/add", {"address": "x" * 2049}).status_code == 400
