"""Copies of public pages: the same for every visitor, and gone at once when someone hides something."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator

import pytest
from flask.testing import FlaskClient

from app import create_app
from app.adapters.redis import change_log
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.sharing.sharing import Audience
from tests.sharing.conftest import People, ann, bob, people
from tests.support.commands import CommandLog, build_logged_services

__all__ = ["ann", "bob", "people"]


@dataclasses.dataclass
class Site:
    client: FlaskClient
    log: CommandLog
    writer: Services
    share: int

    @property
    def paths(self) -> list[str]:
        return [
            "/",
            "/@ann",
            f"/@ann/{self.share}",
            f"/@ann/{self.share}/chain",
            "/@ann/atom.xml",
            "/@ann/feed.json",
        ]


@pytest.fixture
def site(people: People, ann: Actor, bob: Actor, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(change_log, "TIMEOUT", 5.0)
    people.open(ann)
    people.open(bob)
    (entry,) = people.blog([ann])
    share = people.services.sharing.share(ann, entry, note="hello").share.id
    settings = dataclasses.replace(people.services.settings, cache=True)
    with (
        build_logged_services(settings, monkeypatch) as (services, log),
        contextlib.closing(bootstrap.build(settings)) as writer,
    ):
        yield Site(create_app(settings, services).test_client(use_cookies=False), log, writer, share)


def test_a_copy_is_the_page_without_a_command(site: Site) -> None:
    for path in site.paths:
        for headers in ({}, {"Accept-Language": "de"}, {"Accept-Encoding": "gzip"}):
            first = site.client.get(path, headers=headers)
            assert first.status_code == 200, path
            site.log.clear()
            again = site.client.get(path, headers=headers)
            assert not site.log.commands, path
            assert again.data == first.data
            assert sorted(again.headers) == sorted(first.headers)
    german = site.client.get("/", headers={"Accept-Language": "de"}).text
    assert 'lang="de"' in german
    assert 'lang="de"' not in site.client.get("/").text.partition(">")[0]


@pytest.mark.parametrize(
    "headers",
    [
        {"Cookie": "theme=dark"},
        {"Cookie": "eventr=abc"},
        {"HX-Request": "true"},
        {"Authorization": "Bearer x"},
        {"If-None-Match": '"x"'},
    ],
)
def test_who_may_see_something_else_gets_no_copy(site: Site, headers: dict[str, str]) -> None:
    site.client.get("/@ann")
    site.log.clear()
    site.client.get("/@ann", headers=headers)
    assert site.log.commands
    site.log.clear()
    site.client.get("/@ann?before=1")
    assert site.log.commands


def test_a_copy_ends_when_someone_changes_their_profile(site: Site, ann: Actor) -> None:
    assert all("Anna of the Lake" not in site.client.get("/@ann").text for _ in range(2))
    # The service also writes the person's feeds, which ends copies as well. This is the profile alone.
    site.writer.mappers.profiles.update(ann.user_id, {"bio": "Anna of the Lake"})
    assert "Anna of the Lake" in site.client.get("/@ann").text


@pytest.mark.parametrize("action", ["close", "unshare", "hide", "narrow", "disable"])
def test_a_copy_ends_when_someone_closes_or_hides_what_it_shows(site: Site, ann: Actor, action: str) -> None:
    assert all(site.client.get(path).status_code == 200 for path in site.paths for _ in range(2))
    writer = site.writer
    actions: dict[str, Callable[[], object]] = {
        "close": lambda: People(writer).open(ann, Audience.FOLLOWERS),
        "hide": lambda: writer.gateways.profiles.set_suspended(ann.user_id, True),
        "disable": lambda: writer.gateways.admin_accounts.set_disabled(ann.user_id, True),
        "unshare": lambda: writer.sharing.remove_share(ann, site.share),
        "narrow": lambda: writer.sharing.update_share(
            ann, site.share, note="", audience=Audience.FOLLOWERS, files=()
        ),
    }
    actions[action]()
    assert "hello" not in "".join(site.client.get(path).text for path in site.paths)
    assert site.client.get(f"/@ann/{site.share}").status_code == 404
