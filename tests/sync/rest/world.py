"""Somebody who has one of everything that the document's examples are about."""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import Any

from app import clock
from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope, Token, TokenKind
from app.models.accounts.user import NewUser
from app.models.media.upload import NewUpload
from app.models.reading.rules import Rule
from app.models.reading.stream import StreamQuery, StreamRef
from app.models.reading.targets import TargetKind
from app.models.sharing.sharing import Audience
from app.models.subscriptions.folder import FolderEditMode
from app.services.accounts.passwords import Hasher
from app.web.api.rest import shapes
from app.web.api.rest.files import KNOWN
from tests.sharing.conftest import People

_OPML = b"""<opml version="2.0"><body>
<outline type="rss" text="One" xmlUrl="https://one.example.org/feed"/>
<outline type="rss" text="Two" xmlUrl="https://two.example.org/feed"/></body></opml>"""


@dataclasses.dataclass
class World:
    """``real``: what stands in the examples → what there is instead."""

    name: str
    who: Actor
    other: Actor
    real: dict[Any, Any]

    def of(self, value: Any) -> Any:
        """Return a value of the document with what there really is."""
        if isinstance(value, dict):
            return {key: self.of(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.of(each) for each in value]
        if value in self.real:
            return self.real[value]
        if isinstance(value, str):
            for known, real in self.real.items():
                if isinstance(known, int):
                    value = re.sub(rf"\b{known}\b", str(real), value)
        return value


@functools.cache
def _hash_password(hasher: Hasher) -> str:
    """Hash the password that the document's examples send, once per server."""
    return hasher.hash(shapes.PASSWORD)


def join(people: People, name: str) -> Actor:
    """Make an account."""
    new = NewUser(f"{name}@example.org", name, _hash_password(people.services.hasher))
    return Actor(people.services.gateways.accounts.add_user(new).id)


def upload(people: People, who: Actor) -> int:
    """Store the file that the document's examples are about."""
    services, size = people.services, KNOWN.size
    begun = services.uploads.create(who, NewUpload(size=size, name="talk.mp3"))
    services.uploads.append(who, begun.upload.id, 0, bytes(size))
    return int(services.sealing.seal_upload(begun.upload.id)["file_id"])


def _add_address(people: People, who: Actor) -> int:
    """Store a feed address, without the password that a program would send."""
    user = people.services.gateways.accounts.find_user(who.user_id)
    assert user is not None
    token = Token(0, who.user_id, TokenKind.FEED, "Kitchen", clock.now(), (Scope.READ,), stream="all")
    return people.services.gateways.tokens.make(token, user)[0].id


def world(people: People, number: int) -> World:
    """Make somebody with a feed, folders, an entry, tags, a search, a share, a comment, an import, a file."""
    services = people.services
    name, friend = f"w{number}", f"f{number}"
    who, other = join(people, name), join(people, friend)
    entries = people.blog([who, other], entries=3, name=f"blog{number}")
    feed = services.subscriptions.subscribe(
        who, f"https://blog{number}.example.org/feed"
    ).subscription.feed_id
    folder, second = (services.folders.create(who, title) for title in ("News", "Later"))
    services.folders.place_feeds(who, [feed], [folder.id], FolderEditMode.MOVE)
    undo = services.folders.move_folder(who, second.id, parent=folder.id)
    services.folders.undo_move(who, undo)
    third = services.folders.create(who, "Third")
    undo = f"folder.{services.folders.delete(who, third.id)}"
    tags = services.tags.change_tags(who, entries[0], add=["one", "two"])
    search = services.tags.save_search(who, "Kept", "blog")
    rule = services.rules.save(who, Rule(0, "Kept", "blog", star=True))
    for each in (who, other):
        services.following.update_profile(
            each, display="", bio="", links=(), audience=Audience.PUBLIC, listed=False, open_lists=True
        )
    services.following.follow(other, name)
    share = services.sharing.share(who, entries[0], note="Mine").share
    theirs = services.sharing.share(other, entries[1], note="Theirs").share
    comment = services.discussion.comment(who, share.id, "A word")
    services.discussion.set_liked(other, share.id)
    kept = services.imports.preview(who, _OPML, "two.opml")
    snapshot = services.reading.load_page(who, StreamQuery(StreamRef.parse("all"))).snapshot
    real = {
        shapes.FEED: feed,
        shapes.FOLDER: folder.id,
        shapes.OTHER_FOLDER: second.id,
        shapes.ENTRY: entries[0],
        shapes.TAG: tags[0].id,
        shapes.OTHER_TAG: tags[1].id,
        shapes.SEARCH: search.id,
        shapes.RULE: rule.id,
        shapes.TARGET: services.sending.add(who, TargetKind.WEBHOOK, "https://example.org/hook").id,
        shapes.ADDRESS: _add_address(people, who),
        shapes.SHARE: share.id,
        shapes.COMMENT: comment.id,
        shapes.IMPORT: kept.id,
        shapes.LIST: services.followed_lists.add(who, f"https://list{number}.example.org/", "Kept").id,
        shapes.FILE: upload(people, who),
        shapes.PERSON: friend,
        shapes.UNDO: undo,
        shapes.SNAPSHOT: snapshot,
        shapes.FEED_URL: f"https://blog{number}.example.org/feed",
        "theirs": theirs.id,
    }
    return World(name, who, other, real)
