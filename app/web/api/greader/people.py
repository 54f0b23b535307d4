"""The account and people of the Google Reader API: login, tokens, friends, comments, preferences."""

from __future__ import annotations

from typing import Any

from flask import Response

from app.errors import AuthRequiredError, InvalidError, NotFoundError, RateLimitedError
from app.services.sharing.people_lists import Contact
from app.web.api.greader import names, streams
from app.web.api.greader.wire import (
    OK,
    Api,
    allow_strangers,
    answer_json,
    answer_text,
    build_post_token,
    get_actor,
    get_caller,
    read_field,
)
from app.web.context import get_services
from app.web.security.sessions import get_client

#: Flags of a friend (FeedHQ, after Google): the user, a followed person.
_SELF, _FOLLOWED = "1", "0"
#: The most pages of people in one list.
_PAGES = 50


def add_routes(api: Api) -> None:
    """Register these routes."""
    api.register_view("/accounts/ClientLogin", "/reader/api/0/accounts/ClientLogin", methods=("GET", "POST"))(
        log_in
    )
    api.register_view("/reader/api/0/token", methods=("GET", "POST"))(show_token)
    api.register_view("/reader/api/0/user-info")(show_user_info)
    api.register_view("/reader/ping", "/reader/api/0/ping")(ping)
    api.register_view("/check/compatibility")(check_compatible)
    api.register_view("/reader/api/0/friend/list")(list_friends)
    api.register_view("/reader/api/0/friend/edit", methods=("POST",))(edit_friend)
    api.register_view("/reader/api/0/comment/edit", methods=("POST",))(edit_comment)
    api.register_view("/reader/api/0/preference/list")(list_preferences)
    api.register_view("/reader/api/0/preference/stream/list")(list_stream_preferences)
    api.register_view("/reader/api/0/preference/stream/set", methods=("POST",))(set_preference)


# -- the account
@allow_strangers
def log_in() -> Response:
    """Log an app in with its app password; return the token for all further requests."""
    password = read_field("Passwd")
    try:
        get_services().tokens.log_in(read_field("Email"), password, get_client())
    except AuthRequiredError:
        return answer_text("Error=BadAuthentication\n", 401)
    except RateLimitedError as e:
        answer = answer_text("Error=BadAuthentication\nInfo=TooManyTries\n", 429)
        answer.headers["Retry-After"] = str(e.ids.get("retry_after", 60))
        return answer
    auth = get_services().tokens.build_reader_auth(password)
    if read_field("output") == "json":
        return answer_json({"SID": auth, "LSID": auth, "Auth": auth})
    return answer_text(f"SID={auth}\nLSID={auth}\nAuth={auth}\n")


def show_token() -> Response:
    """Return the token that apps send with each change. Nothing depends on it: cookies don't count here."""
    return answer_text(build_post_token(get_caller_auth()))


def get_caller_auth() -> str:
    """Return the token that the app sent."""
    from flask import g

    return str(g.auth)


def show_user_info() -> Response:
    """Return the user's id, name and address, all as text."""
    me = get_caller().user
    return answer_json(
        {
            "userId": str(me.id),
            "userName": me.name,
            "userProfileId": str(me.id),
            "userEmail": me.email,
            "isBloggerUser": False,
            "signupTimeSec": int(me.created.timestamp()),
            "isMultiLoginEnabled": False,
        }
    )


def ping() -> Response:
    """Answer whether the token is valid."""
    return answer_text(OK)


@allow_strangers
def check_compatible() -> Response:
    """Answer FreshRSS's own self-test; Eventr's is at ``/check``."""
    return answer_text("PASS")


# -- people
def list_friends() -> Response:
    """List the user and the people they follow (shape: feedhq/reader, FriendList)."""
    me, who = get_caller().user, get_actor()
    found: list[dict[str, Any]] = [_friend(str(me.id), me.name, me.name, flags=_SELF)]
    after = 0
    for _ in range(_PAGES):
        page = get_services().people_lists.list_circle(who, following=after).following
        ids = get_services().sync.find_user_ids(who, [c.handle for c in page.people])
        found += [_followed(c, ids[c.handle]) for c in page.people if c.handle in ids]
        if page.next is None:
            break
        after = page.next
    return answer_json({"friends": found, "encodedSharersList": ""})


def _followed(contact: Contact, user_id: int) -> dict[str, Any]:
    return _friend(str(user_id), contact.handle, contact.name, flags=_FOLLOWED)


def _friend(user_id: str, handle: str, name: str, *, flags: str) -> dict[str, Any]:
    return {
        "userIds": [user_id],
        "profileIds": [user_id],
        "contactId": user_id,
        "stream": f"user/{user_id}/state/com.google/broadcast",
        "flags": flags,
        "displayName": name or handle,
        "givenName": handle,
        "n": "",
        "p": "",
        "hasSharedItemsOnProfile": True,
    }


def edit_friend() -> Response:
    """Follow or unfollow a person."""
    who, handle = get_actor(), streams.resolve_handle(_user(read_field("u")))
    match read_field("action"):
        case "addfollowing":
            get_services().following.follow(who, handle)
        case "removefollowing":
            get_services().following.unfollow(who, handle)
        case other:
            raise InvalidError("This action doesn't exist.", field="action", given=other[:32])
    return answer_text(OK)


def _user(text_: str) -> str:
    """Return the person that a field names: a number, a name, or the id of a stream."""
    named = names.parse_state(text_)
    found = named[0] if named else text_.removeprefix("user/").removeprefix("@")
    if not found:
        raise InvalidError("Specify a person.", field="u")
    return found


def edit_comment() -> Response:
    """Comment on a share."""
    if (action := read_field("action")) != "addcomment":
        raise InvalidError("This action doesn't exist.", field="action", given=action[:32])
    share_id, words = names.parse_item_id(read_field("i")), read_field("comment")
    try:
        get_services().discussion.comment(get_actor(), share_id, words, once=True)
    except NotFoundError as e:
        raise NotFoundError("You can only comment on shares.", share_id=share_id) from e
    return answer_text(OK)


# -- preferences: older apps expect these routes
def list_preferences() -> Response:
    """Return the general preferences."""
    return answer_json({"prefs": [{"id": "lhn-prefs", "value": '{"subscriptions":{"ssa":"true"}}'}]})


def list_stream_preferences() -> Response:
    """Return no preferences of streams, so each app sorts as it likes."""
    return answer_json({"streamprefs": {}})


def set_preference() -> Response:
    """Accept a preference without storing it: each app keeps its own display settings."""
    return answer_text(OK)
