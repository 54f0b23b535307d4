"""Pictures and files in posts, notes and comments: attaching, showing, and who may see them (U12)."""

from __future__ import annotations

import hashlib
import html
import json
import re
from collections.abc import Callable

import pytest

from app.bootstrap.services import Services
from app.errors import InvalidError, NotFoundError
from app.gateways.media.drawing import read_body
from app.models.accounts.actor import Actor
from app.models.media.attachment import NewAttachment
from app.models.media.blob import ORIGINAL, BlobKind, Content, Purpose
from app.models.media.sniff import UNKNOWN_TYPE, sniff
from app.models.sharing.sharing import Audience
from app.runtime.pieces import read_piece
from tests.media import pictures
from tests.sharing.conftest import People
from tests.sharing.visiting import Doors
from tests.sync.conftest import Reader, password_of


@pytest.fixture
def people(services: Services) -> People:
    return People(services)


@pytest.fixture
def doors(services: Services) -> Doors:
    return Doors(services)


def add_picture(services: Services, actor: Actor, shade: int = 0, purpose: Purpose = Purpose.PICTURE) -> int:
    """Store a picture of a user, as an upload does; each shade is another picture."""
    picture = pictures.paint(900, 600)
    picture.putpixel((0, 0), (shade, 0, 0))
    path = services.settings.home / "body"
    path.write_bytes(pictures.save(picture, "PNG"))
    body = read_body(path)
    files, user_id = services.gateways.files, actor.user_id
    return services.drawing.keep(
        body,
        purpose,
        lambda session, blob: files.add(session, user_id, blob, "cat.png", body.size, purpose=purpose),
    ).id


def add_file(services: Services, actor: Actor, data: bytes = b"<script>alert(1)</script>") -> int:
    """Store a file as it is."""
    content = Content(
        id=hashlib.sha256(data).digest(),
        kind=BlobKind.FILE,
        size=len(data),
        type=sniff(data) or UNKNOWN_TYPE,
        files={ORIGINAL: data},
    )
    files, user_id = services.gateways.files, actor.user_id
    return services.gateways.blobs.keep(
        content,
        lambda session, blob: files.add(
            session, user_id, blob, "page.html", len(data), purpose=Purpose.ATTACHMENT
        ),
    ).id


def get_owners(services: Services, actor: Actor, file_id: int) -> tuple[str, ...]:
    return services.gateways.files.get(actor.user_id, file_id).owners


def get_status(doors: Doors, who: Actor | None, path: str) -> int:
    return doors(who).get(path).status_code


def test_a_post_with_pictures_shows_them(services: Services, people: People, doors: Doors) -> None:
    ann, bob = people.join("ann"), people.join("bob")
    services.following.update_profile(ann, audience=Audience.PUBLIC)
    services.following.follow(bob, "ann")
    one, two = add_picture(services, ann, 1), add_picture(services, ann, 2)
    files = [NewAttachment(two, "A <b>cat</b>"), NewAttachment(one)]
    post = services.sharing.publish_post(ann, "", "Look at her.", files=files)
    assert [one.file_id for one in post.files] == [two, one]
    assert get_owners(services, ann, one) == (f"share:{post.id}",)
    pages = ("/@ann", f"/@ann/{post.id}", f"/shares/{post.id}/comments", f"/read/all?entry={post.id}")
    for who, path in ((bob, page) for page in pages):
        text = doors(who).get(path).text
        found = re.findall(
            r'<img src="/m/(\d+)/w640" srcset="[^"]+" sizes="[^"]+" width="900" height="600" alt="([^"]*)"',
            text,
        )
        assert found == [(str(two), "A &lt;b&gt;cat&lt;/b&gt;"), (str(one), "")], path
    for size in ("w640", "w1280", "t208", "t416"):
        shown = doors(None).get(f"/m/{one}/{size}")
        assert (shown.status_code, shown.content_type) == (200, "image/webp")
        assert shown.headers["Cache-Control"] == "private, max-age=3600"
        assert "Cookie" in shown.headers["Vary"]
        assert "sandbox" in shown.headers["Content-Security-Policy"]
        pictures.read(shown.data)


def test_a_post_may_consist_of_pictures_alone(services: Services, people: People) -> None:
    ann = people.join("ann")
    post = services.sharing.publish_post(ann, "", "", files=[NewAttachment(add_picture(services, ann))])
    with pytest.raises(InvalidError):
        services.sharing.publish_post(ann, "", "")
    services.sharing.update_share(ann, post.id, note="Now with words.")
    services.sharing.update_share(ann, post.id, note="")
    with pytest.raises(InvalidError):
        services.sharing.update_share(ann, post.id, files=[])


def build_cases() -> list[tuple[str, Callable[[Services, Actor, int], object]]]:
    def comment(services: Services, ann: Actor, file_id: int, audience: Audience) -> object:
        post = services.sharing.publish_post(ann, "", "A post.", audience=audience)
        return services.discussion.comment(ann, post.id, "Look.", files=[NewAttachment(file_id)])

    def post(services: Services, ann: Actor, file_id: int, audience: Audience) -> object:
        return services.sharing.publish_post(ann, "", "x", audience=audience, files=[NewAttachment(file_id)])

    return [("a post", post), ("a comment", comment)]  # type: ignore[list-item]


@pytest.mark.parametrize("make", [case for _, case in build_cases()], ids=[name for name, _ in build_cases()])
@pytest.mark.parametrize(
    ("audience", "follower", "stranger"),
    [(Audience.PUBLIC, 200, 200), (Audience.FOLLOWERS, 200, 404), (Audience.PRIVATE, 404, 404)],
)
def test_U12_people_who_see_a_post_see_its_pictures(
    services: Services,
    people: People,
    doors: Doors,
    make: Callable[[Services, Actor, int, Audience], object],
    audience: Audience,
    follower: int,
    stranger: int,
) -> None:
    ann, fan, other = (people.join(name) for name in ("ann", "fan", "other"))
    services.following.get_or_create_profile(ann)
    services.following.follow(fan, "ann")
    file_id = add_picture(services, ann)
    for who in (fan, other, None):
        assert get_status(doors, who, f"/m/{file_id}/w640") == 404, "not attached yet"
    make(services, ann, file_id, audience)
    for name in ("w640", "get"):
        path = f"/m/{file_id}/{name}"
        assert get_status(doors, ann, path) == 200
        assert get_status(doors, fan, path) == follower
        assert get_status(doors, other, path) == stranger
        assert get_status(doors, None, path) == stranger


def test_U12_each_look_is_decided_anew(services: Services, people: People, doors: Doors) -> None:
    ann, fan = people.join("ann"), people.join("fan")
    services.following.get_or_create_profile(ann)
    services.following.follow(fan, "ann")
    path = f"/m/{(file_id := add_picture(services, ann))}/w640"
    post = services.sharing.publish_post(
        ann, "", "x", audience=Audience.FOLLOWERS, files=[NewAttachment(file_id)]
    )
    token = services.attachments.sign(fan, file_id, KEY(doors))
    assert get_status(doors, fan, path) == 200
    assert get_status(doors, None, f"{path}?t={token}") == 200
    services.sharing.update_share(ann, post.id, audience=Audience.PRIVATE)
    assert get_status(doors, fan, path) == 404
    assert get_status(doors, None, f"{path}?t={token}") == 404
    services.sharing.update_share(ann, post.id, audience=Audience.FOLLOWERS)
    assert get_status(doors, None, f"{path}?t={token}") == 200
    services.following.block(ann, "fan")
    assert get_status(doors, fan, path) == 404
    assert get_status(doors, None, f"{path}?t={token}") == 404


def KEY(doors: Doors) -> str:
    return str(doors.app.extensions["eventr"].secret_key.hex())


def test_a_token_is_for_one_file_one_reader_and_a_day(
    services: Services, people: People, doors: Doors
) -> None:
    ann = people.join("ann")
    mine, other = add_picture(services, ann, 1), add_picture(services, ann, 2)
    token = services.attachments.sign(ann, mine, KEY(doors))
    assert get_status(doors, None, f"/m/{mine}/w640?t={token}") == 200
    assert get_status(doors, None, f"/m/{other}/w640?t={token}") == 404
    for n in range(0, len(token), 7):
        forged = token[:n] + ("A" if token[n] != "A" else "B") + token[n + 1 :]
        assert get_status(doors, None, f"/m/{mine}/w640?t={forged}") == 404
    services.attachments._ttl = -1
    assert get_status(doors, None, f"/m/{mine}/w640?t={token}") == 404


def test_another_persons_file_cannot_be_attached(services: Services, people: People, doors: Doors) -> None:
    ann, eve = people.join("ann"), people.join("eve")
    file_id = add_picture(services, ann)
    with pytest.raises(NotFoundError):
        services.sharing.publish_post(eve, "", "x", files=[NewAttachment(file_id)])
    assert get_status(doors, eve, f"/m/{file_id}/w640") == 404
    assert services.store.database["shares"].count_documents({}) == 0


def test_a_removed_post_lets_its_files_go_and_an_undo_takes_them_back(
    services: Services, people: People, doors: Doors
) -> None:
    ann = people.join("ann")
    file_id = add_picture(services, ann)
    post = services.sharing.publish_post(ann, "", "x", files=[NewAttachment(file_id)])
    token = services.sharing.remove_share(ann, post.id)
    assert get_owners(services, ann, file_id) == ()
    assert get_status(doors, None, f"/m/{file_id}/w640") == 404
    back = services.sharing.restore_share(ann, token)
    assert [one.file_id for one in back.files] == [file_id]
    assert get_owners(services, ann, file_id) == (f"share:{post.id}",)
    assert get_status(doors, None, f"/m/{file_id}/w640") == 200


def test_a_removed_comment_lets_its_files_go_and_an_undo_takes_them_back(
    services: Services, people: People, doors: Doors
) -> None:
    ann = people.join("ann")
    post = services.sharing.publish_post(ann, "", "x")
    file_id = add_picture(services, ann)
    said = services.discussion.comment(ann, post.id, "", files=[NewAttachment(file_id, "A cat")])
    services.discussion.comment(ann, post.id, "An answer.", said.id)
    _, token = services.discussion.remove_comment(ann, said.id)
    assert get_owners(services, ann, file_id) == ()
    assert get_status(doors, None, f"/m/{file_id}/w640") == 404
    services.discussion.restore_comment(ann, token)
    assert get_owners(services, ann, file_id) == (f"comment:{said.id}",)
    (shown, *_) = services.discussion.get_thread(ann, post).comments
    assert [(one.file_id, one.alt) for one in shown.files] == [(file_id, "A cat")]


def test_an_edit_exchanges_files(services: Services, people: People) -> None:
    ann = people.join("ann")
    one, two = add_picture(services, ann, 1), add_picture(services, ann, 2)
    post = services.sharing.publish_post(ann, "", "x", files=[NewAttachment(one)])
    services.sharing.update_share(ann, post.id, note="y")
    assert get_owners(services, ann, one) == (f"share:{post.id}",)
    changed = services.sharing.update_share(ann, post.id, files=[NewAttachment(two, "new")])
    assert changed.edited
    assert (get_owners(services, ann, one), get_owners(services, ann, two)) == ((), (f"share:{post.id}",))
    said = services.discussion.comment(ann, post.id, "z", files=[NewAttachment(one)])
    services.discussion.update_comment(ann, said.id, "zz")
    assert get_owners(services, ann, one) == (f"comment:{said.id}",)
    services.discussion.update_comment(ann, said.id, "zz", files=[])
    assert get_owners(services, ann, one) == ()


def test_a_post_that_moves_between_audiences_keeps_its_files(services: Services, people: People) -> None:
    ann = people.join("ann")
    file_id = add_picture(services, ann)
    post = services.sharing.publish_post(ann, "", "x", files=[NewAttachment(file_id)])
    for audience in (Audience.PRIVATE, Audience.PUBLIC):
        moved = services.sharing.update_share(ann, post.id, audience=audience)
        assert [one.file_id for one in moved.files] == [file_id]
        assert get_owners(services, ann, file_id) == (f"share:{post.id}",)


def test_the_number_of_files_and_their_descriptions_are_limited(services: Services, people: People) -> None:
    ann = people.join("ann")
    file_id, limit = add_picture(services, ann), services.settings.attachment_alt_length
    twice = [NewAttachment(file_id), NewAttachment(file_id)]
    assert len(services.sharing.publish_post(ann, "", "x", files=twice).files) == 1
    for files in ([NewAttachment(n) for n in range(1, 12)], [NewAttachment(file_id, "x" * (limit + 1))]):
        with pytest.raises(InvalidError):
            services.sharing.publish_post(ann, "", "x", files=files)


def test_other_files_are_only_downloads(services: Services, people: People, doors: Doors) -> None:
    ann = people.join("ann")
    file_id = add_file(services, ann)
    services.sharing.publish_post(ann, "", "x", files=[NewAttachment(file_id)])
    answer = doors(None).get(f"/m/{file_id}/get")
    assert answer.status_code == 200
    assert answer.headers["Content-Disposition"].startswith("attachment")
    assert answer.content_type == "application/octet-stream"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert get_status(doors, None, f"/m/{file_id}/w640") == 404
    part = doors(None).get(f"/m/{file_id}/get", headers={"Range": "bytes=1-6"})
    assert (part.status_code, part.data) == (206, b"script")


def read_own(services: Services, actor: Actor, file_id: int) -> tuple[str, bytes]:
    """Return name and bytes of a person's file as they download it, which is what they export as well."""
    file = services.files.get(actor, file_id)
    _, name = services.files.find_content(actor, file)
    body = b"".join(read_piece(services.files.open(actor, file, name)))
    exported = services.gateways.personal_exports._belongings.iter_files(actor.user_id)
    (own,) = (one for one in exported if one.id == file_id)
    assert own.chunks is not None
    assert b"".join(own.chunks()) == body
    assert own.extension == ("png" if name == ORIGINAL else "webp")
    return name, body


@pytest.mark.parametrize("first", ["picture", "file"])
def test_U08_the_same_bytes_of_another_file_show_nobody_the_original(
    services: Services, people: People, doors: Doors, first: str
) -> None:
    ann, eve = people.join("ann"), people.join("eve")
    services.following.update_profile(ann, audience=Audience.PUBLIC)
    picture = add_picture(services, ann)
    data = (services.settings.home / "body").read_bytes()
    file = add_file(services, eve, data)
    if first == "file":
        services.files.delete(ann, picture)
        picture = add_picture(services, ann)
    (blob,) = services.gateways.blobs.find([hashlib.sha256(data).digest()]).values()
    assert {ORIGINAL, "w1280"} <= blob.names.keys(), "both are one blob"
    services.sharing.publish_post(ann, "", "x", files=[NewAttachment(picture)])
    shown = doors(None).get(f"/m/{picture}/get")
    assert (shown.status_code, shown.content_type) == (200, "image/webp")
    assert pictures.read(shown.data).format == "WEBP"
    assert read_own(services, ann, picture) == ("w1280", shown.data)
    assert read_own(services, eve, file) == (ORIGINAL, data)


@pytest.mark.parametrize("first", ["picture", "file"])
def test_U13_a_file_does_not_tell_that_someone_has_the_same_picture(
    services: Services, people: People, doors: Doors, first: str
) -> None:
    ann, eve = people.join("ann"), people.join("eve")
    picture = add_picture(services, ann)
    data = (services.settings.home / "body").read_bytes()
    if first == "file":
        services.files.delete(ann, picture)
    file = add_file(services, eve, data)
    if first == "file":
        add_picture(services, ann)
    post = services.sharing.publish_post(eve, "", "x", audience=Audience.PRIVATE, files=[NewAttachment(file)])
    (shown,) = post.files
    assert (shown.is_picture, shown.width, shown.color, shown.type) == (False, 0, "", "image/png")
    for name in ("w640", "t208"):
        assert get_status(doors, eve, f"/m/{file}/{name}") == 404
    assert doors(eve).get(f"/m/{file}/get").data == data
    add_picture(services, ann, purpose=Purpose.AVATAR)
    with pytest.raises(NotFoundError):
        services.avatars.adopt(eve, file)


def test_U13_a_file_does_not_tell_that_it_is_an_icon_somewhere(services: Services, people: People) -> None:
    eve = people.join("eve")
    data = b'<svg xmlns="http://www.w3.org/2000/svg"/>'
    file = add_file(services, eve, data)
    services.store.database.blobs.update_one({}, {"$set": {"type": "image/svg+xml"}})
    post = services.sharing.publish_post(eve, "", "x", files=[NewAttachment(file)])
    assert post.files[0].type == UNKNOWN_TYPE
    (own,) = services.gateways.personal_exports._belongings.iter_files(eve.user_id)
    assert own.extension == "bin"


def test_a_known_file_is_never_a_drawn_picture(services: Services, people: People) -> None:
    ann = people.join("ann")
    add_picture(services, ann)
    data = (services.settings.home / "body").read_bytes()
    digest = hashlib.sha256(data).digest()
    assert services.gateways.files.find_by_blob(ann.user_id, digest) is None
    file = add_file(services, ann, data)
    add_picture(services, ann)
    known = services.gateways.files.find_by_blob(ann.user_id, digest)
    assert known is not None
    assert known.id == file


def test_published_feeds_have_enclosures(services: Services, people: People, doors: Doors) -> None:
    ann = people.join("ann")
    services.following.update_profile(ann, audience=Audience.PUBLIC)
    picture, file = add_picture(services, ann), add_file(services, ann)
    services.sharing.publish_post(
        ann, "", "x", files=[NewAttachment(picture, 'A "cat"'), NewAttachment(file)]
    )
    item = json.loads(doors(None).get("/@ann/feed.json").data)["items"][0]
    first, second = item["attachments"]
    assert first == {
        "url": first["url"],
        "mime_type": "image/webp",
        "title": 'A "cat"',
    }
    assert second["size_in_bytes"] == 25
    assert f'/m/{picture}/w1280" alt="A &quot;cat&quot;"' in item["content_html"]
    atom = doors(None).get("/@ann/atom.xml").text
    assert atom.count('rel="enclosure"') == 2
    for one in (first, second):
        path = one["url"].removeprefix(services.settings.own_origin)
        assert path.endswith("/get")
        shown = doors(None).get(path)
        assert shown.status_code == 200
        assert shown.content_type == one["mime_type"]
        assert shown.headers["Content-Disposition"].startswith("attachment")
    assert "cat.webp" in doors(None).get(f"/m/{picture}/get").headers["Content-Disposition"]
    assert "page.html" in doors(None).get(f"/m/{file}/get").headers["Content-Disposition"]


def test_the_comments_of_a_deleted_persons_shares_let_files_go(services: Services, people: People) -> None:
    ann, bob = people.join("ann"), people.join("bob")
    services.following.get_or_create_profile(ann)
    post = services.sharing.publish_post(ann, "", "x")
    file_id = add_picture(services, bob)
    services.discussion.comment(bob, post.id, "y", files=[NewAttachment(file_id)])
    from app import clock

    services.gateways.discussion.erase(ann.user_id, clock.now())
    assert get_owners(services, bob, file_id) == ()


def test_reader_apps_load_pictures_for_followers_without_a_cookie(
    services: Services, people: People, doors: Doors
) -> None:
    ann, bob = people.join("ann"), people.join("bob")
    services.following.update_profile(ann, audience=Audience.FOLLOWERS)
    services.following.follow(bob, "ann")
    services.following.answer_request(ann, "bob", True)
    file_id = add_picture(services, ann)
    post = services.sharing.publish_post(ann, "", "Look.", files=[NewAttachment(file_id, "A cat")])
    app = Reader(doors.app.test_client(), "bob", password_of(services, bob))
    app.log_in()
    (item,) = app.items(post.id)
    (address,) = re.findall(r'<img src="([^"]+)" alt="A cat"', item["summary"]["content"])
    path = html.unescape(address).removeprefix(services.settings.own_origin)
    shown = doors(None).get(path)
    assert shown.status_code == 200
    assert shown.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
    assert get_status(doors, None, path.partition("?")[0]) == 404
    services.following.remove_follower(ann, "bob")
    assert get_status(doors, None, path) == 404


def test_forms_add_keep_and_remove_files(services: Services, people: People, doors: Doors) -> None:
    ann = people.join("ann")
    (entry,) = people.blog([ann])
    one, two = add_picture(services, ann, 1), add_picture(services, ann, 2)
    door = doors(ann)
    form = {"entry": entry, "note": "Look.", "file": [one, two], "alt1": "One", "alt2": ""}
    assert door.post("/entries/share", form).status_code == 303
    share = services.sharing.get_share_box(ann, services.reading.get_article(ann, entry).entry).mine
    assert share is not None
    assert [(found.file_id, found.alt) for found in share.files] == [(one, "One"), (two, "")]

    page = door.get(f"/compose?entry={entry}").text
    assert re.findall(r'name="file" value="(\d+)"', page) == [str(one), str(two)]
    assert 'action="/shares/edit"' in page

    def edit(**fields: object) -> list[int]:
        answer = door.post("/shares/edit", {"share": share.id, "note": "Look again.", **fields})
        assert answer.status_code == 303
        return [found.file_id for found in services.sharing.get_share(ann, share.id).files]

    assert edit() == [one, two], "without scripts, the form lists no files"
    assert edit(with_files="1", file=[two], alt1="Two") == [two]
    assert edit(with_files="1") == []

    said = door.post(f"/shares/{share.id}/comments", {"text": "", "file": [one], "alt1": "Here"})
    assert said.status_code == 303
    assert 'alt="Here"' in door.get(f"/shares/{share.id}/comments").text
    assert door.post("/compose", {"title": "", "note": "", "file": [two]}).status_code == 303
    assert door.post("/compose", {"title": "", "note": ""}).status_code == 400
    assert door.post("/compose", {"title": "", "note": "x", "file": [17]}).status_code == 404
    long = "x" * (services.settings.comment_length + 1)
    again = door.post(f"/shares/{share.id}/comments", {"text": long, "file": [two], "alt1": "Kept"})
    assert again.status_code == 400
    assert f'name="file" value="{two}"' in again.text
    assert 'value="Kept"' in again.text


def test_U12_previews_of_files_are_small_pictures_for_their_owner_alone(
    services: Services, people: People, doors: Doors
) -> None:
    ann, bob = people.join("ann"), people.join("bob")
    picture, avatar = add_picture(services, ann), add_picture(services, ann, 1, Purpose.AVATAR)
    file = add_file(services, ann)
    page = doors(ann).get("/settings/files").text
    for file_id, size in ((picture, (208, 144)), (avatar, (96, 96))):
        path = f"/settings/files/{file_id}/preview"
        assert f'src="{path}"' in page
        answer = doors(ann).get(path)
        assert (answer.status_code, answer.content_type) == (200, "image/webp")
        assert pictures.read(answer.data).size == size
        assert get_status(doors, bob, path) == 404
    assert f"/settings/files/{file}/preview" not in page
    assert get_status(doors, ann, f"/settings/files/{file}/preview") == 404
    assert page.count("Your picture") == 2  # the name, and what is deleted
