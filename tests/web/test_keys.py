"""Keys: their table, how they are written, the settings in which each can be another or none, the help."""

from __future__ import annotations

import re
from html import unescape

import pytest

from app.bootstrap.services import Services
from app.errors import InvalidError
from app.models.accounts.preferences import Preferences
from app.web.keyboard import keys, names
from tests.web.conftest import Visitor

#: The rows of the design that need no other people.
ACTIONS = """next previous down up next-unread page page-back next-feed previous-feed tree-next tree-previous
    tree-open tree-expand next-folder previous-folder open close original original-background read mark-all
    mark-above mark-below undo star tag hide mail copy-link full-text view-expanded view-list view-panes tree
    full-screen text-larger text-smaller theme-next look-text
    refresh add search help jump go-home go-today go-all go-starred go-tags go-settings
    play play-back play-forward share share-note chain go-recent go-following go-shares like comment comments
    go-people go-discover go-notifications go-profile"""


# -- the table
def test_the_table_has_each_row_of_the_design_once():
    actions = [row.action for _, rows in keys.GROUPS for row in rows]
    assert sorted(actions) == sorted(ACTIONS.split())


def test_no_key_of_the_table_stands_in_anothers_way():
    map = keys.KeyMap({})
    for action, row in keys.ROWS.items():
        assert map.compute_changes(action, row.keys) == {}


def test_keys_of_the_table_are_written_as_people_would_write_them():
    for row in keys.ROWS.values():
        assert names.parse_keys(" ".join(row.keys)) == row.keys


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("", ()),
        ("j", ("j",)),
        ("J", ("Shift+J",)),
        ("shift+j", ("Shift+J",)),
        ("esc Return", ("Escape", "Enter")),
        ("space shift+space", ("Space", "Shift+Space")),
        ("g+a G+A", ("g+a", "Shift+G+Shift+A")),
        ("g+shift+s", ("g+Shift+S",)),
        ("cmd+k ctrl+K", ("Ctrl+K",)),
        ("+", ("+",)),
        ("g++", ("g++",)),
        (". / ? $", None),
        (". / ?", (".", "/", "?")),
        ("ж Ж", ("ж", "Shift+Ж")),
        ("f5 arrowup", ("F5", "ArrowUp")),
        ("tab", None),
        ("foo", None),
        ("a+b+c", None),
        ("ctrl+w", None),
        ("ctrl+1", None),
        ("ctrl+shift+z", None),
        ("shift+1", None),
        ("ctrl+", None),
        ("Ctrl", None),
    ],
)
def test_what_people_write_becomes_keys_or_is_refused(app, written, meant):
    with app.test_request_context():
        if meant is None:
            with pytest.raises(InvalidError):
                names.parse_keys(written)
        else:
            assert names.parse_keys(written) == meant


def test_the_keys_of_a_button_are_told_as_aria_wants_them():
    map = keys.KeyMap({"star": "+ g+x", "read": ""})
    assert map.format_aria("mark-all") == "Shift+A"
    assert map.format_aria("undo") == "z Control+Z Meta+Z"
    assert map.format_aria("star") == "Plus"
    assert map.format_aria("read") == map.format_aria("go-all") == ""


def test_without_single_keys_those_remain_that_nobody_types():
    map = keys.KeyMap({"next": "ArrowDown j Shift+F2"}, single=False)
    left = {action: map.get_keys(action) for action in keys.ROWS if map.get_keys(action)}
    assert left == {
        "next": ("ArrowDown", "Shift+F2"),
        "open": ("Enter",),
        "close": ("Escape",),
        "undo": ("Ctrl+Z",),
        "jump": ("Ctrl+K",),
    }
    assert map.get_chosen("next") == ("ArrowDown", "j", "Shift+F2")


def test_the_hint_for_a_second_stroke_names_each_action_once():
    chords = keys.KeyMap({}).list_chords()["g"]
    labels = [str(text) for _, text in chords]
    assert (["d", "Shift+T"], "Discover") in [(seconds, str(text)) for seconds, text in chords]
    assert len(labels) == len(set(labels))


def test_ones_own_key_is_not_lost_to_a_default():
    map = keys.KeyMap({"read": "s", "no-such-action": "q"})
    assert map.get_keys("read") == ("s",)
    assert map.get_keys("star") == ()


def test_a_taken_key_is_refused_or_changes_hands(app):
    map = keys.KeyMap({})
    with app.test_request_context():
        for wish in (("s",), ("g",), ("s+x",), ("x", "Ctrl+Z")):
            with pytest.raises(InvalidError):
                map.compute_changes("read", wish)
    assert map.compute_changes("read", ("x",)) == {"read": "x"}
    assert map.compute_changes("read", ("s",), override=True) == {"read": "s", "star": ""}
    taken = map.compute_changes("read", ("g",), override=True)
    assert taken["jump"] == "Ctrl+K"
    assert taken["go-all"] == ""


def test_dots_and_dollars_are_keys_but_no_names():
    assert Preferences.from_stored({"keys": {"next": ". $"}}).keys == {"next": ". $"}
    for name in ("$set", ".", "a.b", ""):
        assert Preferences.from_stored({"keys": {name: "x"}}).keys == {}


# -- pages
def _rows(page: str) -> dict[str, list[str]]:
    return {
        a: unescape(k).split() for a, k in re.findall(r'data-action="([\w-]+)" data-keys="([^"]*)"', page)
    }


def _handled(page: str) -> dict[str, list[str]]:
    (lines,) = re.findall(r'<meta name="keys" content="([^"]*)"', page)
    return {line.split()[0]: line.split()[1:] for line in unescape(lines).split("\n")}


def _preferences(services: Services) -> Preferences:
    found = services.mappers.users.find_credentials("ann")
    assert found
    return found.user.preferences


def test_table_help_and_handler_agree(ann: Visitor):
    ann.post("/settings/keys", {"action": "star", "keys": "x g+x"})
    ann.post("/settings/keys", {"action": "read", "keys": ""})
    page = ann.get("/help/keys").text
    expected = {action: list(row.keys) for action, row in keys.ROWS.items()} | {
        "star": ["x", "g+x"],
        "read": [],
    }
    assert _rows(page) == expected
    assert _handled(page) == {action: mine for action, mine in expected.items() if mine}
    inside = ann.get("/help/keys", headers={"HX-Request": "true", "HX-Target": "dialog#help"}).text
    assert _rows(inside) == expected
    assert "<html" not in inside
    assert 'title="Add a feed" aria-label="Add a feed" aria-keyshortcuts="a"' in ann.get("/read/all").text


def test_a_key_is_changed_switched_off_set_back_and_taken_back(services: Services, ann: Visitor):
    answer = ann.post("/settings/keys", {"action": "next", "keys": "x"})
    assert answer.headers["Location"] == "/settings/keys#key-next"
    assert "“Open next entry”: x" in ann.get("/settings/keys").text
    ann.post("/settings/keys", {"action": "star", "keys": ""})
    assert _preferences(services).keys == {"next": "x", "star": ""}
    ann.post("/settings/keys/default", {"action": "next"})
    assert _preferences(services).keys == {"star": ""}
    ann.post("/settings/keys/reset")
    assert _preferences(services).keys == {}
    ann.post("/undo", {"token": "keys.", "next": "/settings/keys"})
    assert _preferences(services).keys == {"star": ""}


def test_a_conflict_is_told_with_the_words_kept_and_a_way_out(services: Services, ann: Visitor):
    answer = ann.post("/settings/keys", {"action": "read", "keys": "s"})
    assert answer.status_code == 400
    assert "“s” is already the shortcut for “Star”." in answer.text
    assert 'id="k-read" name="keys" value="s"' in answer.text
    assert "Reassign to this action" in answer.text
    assert _preferences(services).keys == {}
    ann.post("/settings/keys", {"action": "read", "keys": "s", "take": "1"})
    assert _preferences(services).keys == {"read": "s", "star": ""}
    answer = ann.post("/settings/keys/default", {"action": "star"})
    assert answer.status_code == 400
    assert "“s” is already the shortcut for “Mark as read or unread”." in answer.text


def test_one_switch_turns_all_single_keys_off(services: Services, ann: Visitor):
    ann.post("/settings/keys/single", {"on": "0"})
    page = ann.get("/help/keys").text
    assert set(_handled(page)) == {"open", "close", "undo", "jump"}
    assert "Single-key shortcuts are off." in page
    ann.post("/settings/keys/single", {"on": "1"})
    assert len(_handled(ann.get("/help/keys").text)) == len(keys.ROWS)


def test_what_is_no_action_or_no_key_is_refused(services: Services, ann: Visitor):
    assert ann.post("/settings/keys", {"action": "fly", "keys": "x"}).status_code == 404
    answer = ann.post("/settings/keys", {"action": "star", "keys": "Hyper+<b>"})
    assert answer.status_code == 400
    assert "“Hyper+&lt;b&gt;” isn&#39;t a valid key" in answer.text
    assert ann.post("/settings/look", {"text_size": "99"}).status_code == 400
    assert _preferences(services) == Preferences()


def test_pages_name_ones_own_keys(services: Services, ann: Visitor):
    assert "Press <kbd>t</kbd> on an entry" in ann.get("/tags").text
    ann.post("/settings/keys", {"action": "tag", "keys": "g+<"})
    assert "Press <kbd>g &lt;</kbd> on an entry" in ann.get("/tags").text
    ann.post("/settings/keys/single", {"on": "0"})
    assert "Press <kbd>" not in ann.get("/tags").text


def test_the_size_of_text_is_kept_with_the_account(services: Services, ann: Visitor):
    assert ann.post("/settings/look", {"text_size": "21"}).status_code == 200
    assert 'data-text-size="21"' in ann.get("/read/all").text
