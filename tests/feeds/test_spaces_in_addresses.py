"""An address with a space in it is refused with a sentence, and never cut at the space."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.bootstrap.services import Services
from app.config import Settings
from app.errors import InvalidError
from app.feeds.fetch.address_policy import Policy
from app.feeds.opml.opml import resolve_address
from app.models.accounts.actor import Actor

ALICE = Actor(1)
TYPED = ("http://site.example/c d.xml", "site.example/c d.xml", "feed:https://site.example/c d.xml")

#: Every way on which a person or an app states an address.
WAYS: dict[str, Callable[[Services, str], object]] = {
    "search": lambda s, text: s.discovery.discover(ALICE, text),
    "subscribe": lambda s, text: s.subscriptions.subscribe(ALICE, text),
    "app": lambda s, text: s.sync.resolve_address(ALICE, text),
    "change address": lambda s, text: s.subscriptions.change_address(
        ALICE, s.subscriptions.subscribe(ALICE, "http://site.example/old").subscription.feed_id, text
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_address_with_a_space_is_refused_everywhere(services: Services, way: str) -> None:
    for text in TYPED:
        with pytest.raises(InvalidError) as caught:
            WAYS[way](services, text)
        assert caught.value.message.startswith("This address contains a space."), text
    stored = services.gateways.feeds.find_by_url("http://site.example/c")
    assert stored is None


def test_escaped_spaces_are_accepted(services: Services) -> None:
    done = services.subscriptions.subscribe(ALICE, "http://site.example/c%20d.xml")
    assert services.gateways.feeds.get(done.subscription.feed_id).url == "http://site.example/c%20d.xml"


@pytest.mark.parametrize("text", TYPED)
def test_an_outline_with_a_space_names_no_other_address(text: str) -> None:
    url, fault = resolve_address(text, Policy(Settings()))
    assert fault is not None
    assert fault.word == "invalid_url"
    assert url == text
