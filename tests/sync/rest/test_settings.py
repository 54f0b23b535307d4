"""Settings and looks of lists through the API: the same values, checks and ways back as on the pages."""

from __future__ import annotations

import dataclasses
import datetime as dt
import typing
from collections.abc import Callable
from typing import Any, get_args

import pytest

from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.accounts.preferences import Preferences, list_choices
from app.web.api.rest import settings
from tests.sharing.conftest import People
from tests.sync.rest.conftest import Program

Make = Callable[..., Program]


def _stored(services: Services, who: Actor) -> Preferences:
    user = services.gateways.accounts.find_user(who.user_id)
    assert user is not None
    return user.preferences


def test_every_setting_of_the_pages_is_there_with_its_values() -> None:
    given = set(settings.Settings.__struct_fields__) - {"notify", "push"}
    given |= {f"notify_{name.rstrip('_')}" for name in settings.Notified.__struct_fields__}
    given |= {f"push_{name.rstrip('_')}" for name in settings.Pushed.__struct_fields__}
    fields = dataclasses.fields(Preferences)
    # Turning statistics off deletes them, so that has an operation of its own.
    fields = [field for field in fields if field.name not in ("keys_before", "statistics")]
    # Which stories are apart or hidden is a mark of their entries, and since when a trace of such marks.
    marks = {"stories_apart", "stories_hidden", "stories_since"}
    assert given == {field.name for field in fields} - marks
    for kind in (settings.Settings, settings.SettingsChange):
        hints = typing.get_type_hints(kind)
        for field in fields:
            if "values" in field.metadata:
                assert _literals(hints[field.name]) == set(list_choices(field.name)), field.name
    known = {struct: set(struct.__struct_fields__) for struct in (settings.Settings, settings.SettingsChange)}
    assert len({frozenset(names) for names in known.values()}) == 1


def _literals(hint: Any) -> set[str]:
    found: set[str] = set()
    for part in get_args(hint):
        found |= {part} if isinstance(part, str) else _literals(part)
    return found


def test_statistics_have_a_switch_of_their_own(mine: Program) -> None:
    assert mine.get("/me/statistics").get_json() == {"on": False, "items": []}
    assert mine.put("/me/statistics", json={"on": True}).status_code == 204
    found = mine.get("/me/statistics?days=7").get_json()
    assert (found["on"], len(found["items"]), found["items"][-1]["read"]) == (True, 7, 0)
    assert mine.get("/me/statistics?days=3000").status_code == 400
    mine.put("/me/statistics", json={"on": False})
    assert mine.get("/me/statistics").get_json()["on"] is False


def test_what_is_left_out_stays(mine: Program, services: Services, ann: Actor) -> None:
    first = mine.get("/me/settings").get_json()
    assert (first["sort"], first["notify"]["import"], first["push"]["import"]) == (
        "unread-on-top",
        True,
        False,
    )
    sent = {
        "sort": "oldest",
        "time_zone": "Europe/Berlin",
        "notify": {"import": False},
        "push": {"like": True},
    }
    changed = mine.patch("/me/settings", sent)
    assert changed.status_code == 200
    wanted = {
        **first,
        "sort": "oldest",
        "time_zone": "Europe/Berlin",
        "notify": {**first["notify"], "import": False},
        "push": {**first["push"], "like": True},
    }
    assert changed.get_json() == mine.get("/me/settings").get_json() == wanted
    assert _stored(services, ann).notify_import is False
    assert mine.patch("/me/settings", {}).get_json() == wanted


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({"sort": "latest"}, "sort"),
        ({"time_zone": "Mars/Base"}, "time_zone"),
        ({"text_size": 25}, "text_size"),
        ({"text_size": True}, "text_size"),
        ({"notify": {"like": "no"}}, "notify.like"),
        ({"push": {"feed": True}}, "push.feed"),
        ({"keys_before": {}}, "keys_before"),
        ({"keys": {"fly": "x"}}, "keys"),
        ({"keys": {"star": "m"}}, None),
        ({"keys": {"star": "x", "tag": "x"}}, "keys"),
        ({"keys": {"star": "g"}}, "keys"),
        ({"keys": {"star": "Ctrl+W"}}, "keys"),
        ({"keys": {"star": "nokey"}}, "keys"),
        ({"keys": {"a.b": "x"}}, "keys"),
        ({"sort": "oldest", "show": "some"}, "show"),
    ],
)
def test_what_does_not_fit_changes_nothing(
    mine: Program, services: Services, ann: Actor, sent: dict[str, Any], field: str | None
) -> None:
    before = _stored(services, ann)
    answer = mine.patch("/me/settings", sent)
    if field is None:  # the key of another action is taken from that, as it is on the page
        assert answer.get_json()["keys"] == {"star": "m", "read": ""}
        return
    assert (answer.status_code, answer.get_json()["field"]) == (400, field)
    assert _stored(services, ann) == before


def test_keys_are_kept_as_they_are_written_and_their_change_can_be_taken_back(
    mine: Program, services: Services, ann: Actor
) -> None:
    answer = mine.patch("/me/settings", {"keys": {"star": "shift+x X", "tag": "t", "mail": ""}})
    assert answer.get_json()["keys"] == {"star": "Shift+X", "mail": "", "tree-expand": ""}
    mine.patch("/me/settings", {"keys": {}})
    assert dict(_stored(services, ann).keys) == {}
    services.accounts.undo_keys(ann)
    assert _stored(services, ann).keys["star"] == "Shift+X"


def test_with_an_etag_nobody_overwrites_what_he_has_not_seen(mine: Program) -> None:
    seen = mine.get("/me/settings").headers["ETag"]
    assert mine.patch("/me/settings", {"text_size": 20}, headers={"If-Match": seen}).status_code == 200
    late = mine.patch("/me/settings", {"text_size": 21}, headers={"If-Match": seen})
    assert late.status_code == 412
    assert mine.get("/me/settings").get_json()["text_size"] == 20
    path = "/streams/search/look?q=quiet"
    seen = mine.get(path).headers["ETag"]
    assert mine.patch(path, {"show": "unread"}, headers={"If-Match": seen}).status_code == 200
    assert mine.patch(path, {"show": "all"}, headers={"If-Match": seen}).status_code == 412


def test_each_stream_has_a_look_of_its_own(
    mine: Program, people: People, services: Services, ann: Actor
) -> None:
    people.blog([ann], entries=1)
    (feed,) = services.gateways.subscriptions.find_feed_ids(ann.user_id)
    mine.patch("/me/settings", {"sort": "oldest"})
    path = f"/streams/feed:{feed}/look"
    assert mine.get(path).get_json() == {
        "view": "panes",
        "density": "cozy",
        "sort": "oldest",
        "show": "all",
    }
    changed = mine.patch(path, {"density": "expanded", "show": "unread"})
    assert changed.get_json() == {
        "view": "expanded",
        "density": "expanded",
        "sort": "oldest",
        "show": "unread",
    }
    assert mine.get(path).get_json() == changed.get_json()
    assert mine.get("/streams/all/look").get_json()["show"] == "all"
    assert mine.patch("/streams/search/look?q=quiet", {"sort": "newest"}).get_json()["sort"] == "newest"
    assert mine.get("/streams/search/look?q=quiet").get_json()["sort"] == "newest"
    assert mine.get("/streams/search/look").status_code == 400
    assert mine.patch(path, {"view": "none"}).get_json()["field"] == "view"


def test_W04_a_look_tells_nothing_of_what_is_anothers(
    mine: Program, people: People, program: Make, services: Services, ann: Actor
) -> None:
    people.blog([ann], entries=1)
    folder = services.folders.create(ann, "Hers")
    eve = program(people.join("eve"))
    (feed,) = services.gateways.subscriptions.find_feed_ids(ann.user_id)
    streams = (f"feed:{feed}", f"folder:{folder.id}", "feed:1780000000000001", "folder:1780000000000002")
    mine.patch(f"/streams/feed:{feed}/look", {"show": "unread"})
    assert len({eve.get(f"/streams/{stream}/look").data for stream in streams}) == 1
    assert len({eve.patch(f"/streams/{stream}/look", {"sort": "oldest"}).data for stream in streams}) == 1
    assert mine.get(f"/streams/feed:{feed}/look").get_json()["sort"] == "unread-on-top"


def test_W08_settings_need_their_scope(program: Make, ann: Actor) -> None:
    reader, other = program(ann, "read", "share"), program(ann, "settings")
    assert reader.get("/me/settings").status_code == 200
    refused = reader.patch("/me/settings", {"text_size": 20})
    assert (refused.status_code, refused.get_json()["scope"]) == (403, "settings")
    assert other.patch("/me/settings", {"text_size": 20}).status_code == 200
    assert other.get("/me/settings").status_code == 403


def test_W08_a_program_gives_its_token_back(program: Make, services: Services, ann: Actor) -> None:
    one, other = program(ann), program(ann)
    assert one.delete("/me/token").status_code == 204
    assert one.get("/me").status_code == 401
    assert other.get("/me").status_code == 200
    assert len(services.tokens.list_tokens(ann)) == 1


def test_the_history_goes_back_to_its_end(mine: Program, services: Services, ann: Actor) -> None:
    undo = [services.folders.delete(ann, services.folders.create(ann, f"F{n}").id) for n in range(60)]
    found: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = mine.get("/history", query_string={"cursor": cursor} if cursor else {}).get_json()
        found += [item["undo"] for item in page["items"]]
        cursor = page["next"]
    assert found == [f"folder.{token}" for token in reversed(undo)]
    for wrong in ("x", "1", "-a", "99999999999999-a", "²-a"):
        refused = mine.get("/history", query_string={"cursor": wrong})
        assert (refused.status_code, refused.get_json()["field"]) == (400, "cursor"), wrong


def test_a_pass_is_new_each_time(mine: Program) -> None:
    key = {"Idempotency-Key": "one"}
    first, second = (mine.post("/events/pass", headers=key) for _ in range(2))
    assert (first.status_code, second.status_code) == (201, 201)
    assert "Idempotency-Replayed" not in second.headers
    ends = [dt.datetime.fromisoformat(answer.get_json()["expires"]) for answer in (first, second)]
    assert ends == sorted(ends)


def test_the_same_keys_twice_leave_the_way_back(mine: Program) -> None:
    for _ in range(2):
        assert mine.patch("/me/settings", {"keys": {"star": "x"}}).status_code == 200
    assert mine.post("/undo", {"undo": "keys."}).status_code == 200
    assert mine.get("/me/settings").get_json()["keys"] == {}
