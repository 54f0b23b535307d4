"""A person's settings: stored one by one, checked by their table."""

from __future__ import annotations

import pytest

from app.bootstrap.services import Services
from app.errors import InvalidError
from app.models.accounts.preferences import Preferences
from tests.support.reader import add_user


def _stored(services: Services, actor) -> Preferences:
    return services.gateways.accounts.find_user(actor.user_id).preferences


def test_settings_are_kept_one_by_one(services):
    actor = add_user(services, "ann")
    assert _stored(services, actor) == Preferences()
    services.accounts.set_preferences(actor, {"density": "compact", "keys": {"next": "j g+n", "star": ""}})
    services.accounts.set_preferences(actor, {"text_size": 20})
    found = _stored(services, actor)
    assert (found.density, found.text_size) == ("compact", 20)
    assert found.keys == {"next": "j g+n", "star": ""}


@pytest.mark.parametrize(
    "changes",
    [
        {"colour": "red"},
        {"density": "tiny"},
        {"text_size": 99},
        {"text_size": "18"},
        {"text_size": True},
        {"auto_load": "yes"},
        {"keys": "j"},
        {"keys": {"next": 1}},
        {"keys": {f"a{n}": "x" for n in range(200)}},
    ],
)
def test_a_wrong_value_changes_nothing(services, changes):
    actor = add_user(services, "ann")
    with pytest.raises(InvalidError):
        services.accounts.set_preferences(actor, {"show": "unread", **changes})
    assert _stored(services, actor) == Preferences()


def test_what_is_stored_and_no_longer_fits_falls_back():
    found = Preferences.from_stored({"density": "huge", "gone": 1, "text_size": 22})
    assert found == Preferences(text_size=22)
