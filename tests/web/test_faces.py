"""The letter tile of a person without a picture."""

from __future__ import annotations

import re
from collections.abc import Callable

from app.bootstrap.services import Services
from tests.sharing.conftest import People
from tests.support.reader import add_user
from tests.web.conftest import Visitor

Make = Callable[[], Visitor]


def test_a_person_has_the_same_color_everywhere(ann: Visitor, visitor: Make, services: Services) -> None:
    people, bob = People(services), add_user(services, "bob")
    (entry,) = people.blog([bob])
    people.open(bob)
    share = services.sharing.share(bob, entry, note="Read this").share
    ann.post("/people/follow", {"name": "bob"})
    pages = {
        path: ann.get(path).text for path in ("/people", "/read/following", f"/shares/{share.id}/comments")
    }
    pages |= {
        path: visitor().get(path).text for path in ("/@bob", f"/@bob/{share.id}", f"/@bob/{share.id}/chain")
    }
    colors = {path: set(re.findall(r'class="av (h\d) person"[^>]*>B<', text)) for path, text in pages.items()}
    assert len(set.union(*colors.values())) == 1, colors
    assert all(colors.values()), colors
