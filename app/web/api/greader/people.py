"""The account and the people of the Google Reader API: log-in, tokens, friends, comments, preferences."""

from __future__ import annotations

from typing import Any

from flask import Response

from app.errors import AuthRequiredError, InvalidError, NotFoundError, RateLimitedError
from app.services.sharing.people_lists import Contact
from app.web.api.greader import names, streams
from app.web.api.greader.wire import OK, Api, actor, caller, data, one, post_token, stranger, text
from app.web.context import services
from app.web.security.sessions import client

#: Flags of a friend (FeedHQ, after Google): oneself, followed.
_SELF, _FOLLOWED = "1", "0"
#: Pages of people that one list goes through.
_PAGES = 50


def add(api: Api) -> None:
    """Register these routes."""
    api.route("/accounts/ClientLogin", "/reader/api/0/accounts/ClientLogin", methods=("GET", "POST"))(log_in)
    api.route("/reader/api/0/token", methods=("GET", "POST"))(token)
    api.route("/reader/api/0/user-info")(user_info)
    api.route("/reader/ping", "/reader/api/0/ping")(ping)
    api.route("/check/compatibility")(compatible)
    api.route("/reader/api/0/friend/list")(friends)
    api.route("/reader/api/0/friend/edit", methods=("POST",))(edit_friend)
    api.route("/reader/api/0/comment/edit", methods=("POST",))(edit_comment)
    api.route("/reader/api/0/preference/list")(preferences)
    api.route("/reader/api/0/preference/stream/list")(stream_preferences)
    api.route("/reader/api/0/preference/stream/set", methods=("POST",))(set_preference)


# -- the account
@stranger
def log_in() -> Response:
    """An app logs in with its password, and gets what it comes with from then on."""
    password = one("Passwd")
    try:
        services().tokens.log_in(one("Email"), password, client())
    except AuthRequiredError:
        return text("Error=BadAuthentication\n", 401)
    except RateLimitedError as e:
        answer = text("Error=BadAuthentication\nInfo=TooManyTries\n", 429)
        answer.headers["Retry-After"] = str(e.ids.get("retry_after", 60))
        return answer
    auth = services().tokens.auth(password)
    if one("output") == "json":
        return data({"SID": auth, "LSID": auth, "Auth": auth})
    return text(f"SID={auth}\nLSID={auth}\nAuth={auth}\n")


def token() -> Response:
    """What apps send with each change; nothing depends on it, as no cookie counts here."""
    return text(post_token(caller_auth()))


def caller_auth() -> str:
    """Return what the app came with."""
    from flask import g

    return str(g.auth)


def user_info() -> Response:
    """Who the user is, all of it text."""
    me = caller().user
    return data(
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
    """Whether the token is good."""
    return text(OK)


@stranger
def compatible() -> Response:
    """What FreshRSS's own self-test answers; ours is at ``/check``."""
    return text("PASS")


# -- people
def friends() -> Response:
    """Oneself and whom one follows (shape: feedhq/reader, FriendList)."""
    me, who = caller().user, actor()
    found: list[dict[str, Any]] = [_friend(str(me.id), me.name, me.name, flags=_SELF)]
    after = 0
    for _ in range(_PAGES):
        page = services().contacts.circle(who, following=after).following
        ids = services().sync.ids_of(who, [c.handle for c in page.people])
        found += [_followed(c, ids[c.handle]) for c in page.people if c.handle in ids]
        if page.next is None:
            break
        after = page.next
    return data({"friends": found, "encodedSharersList": ""})


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
    """Follow somebody, or no more."""
    who, handle = actor(), streams.handle_of(_user(one("u")))
    match one("action"):
        case "addfollowing":
            services().following.follow(who, handle)
        case "removefollowing":
            services().following.unfollow(who, handle)
        case other:
            raise InvalidError("There is no such action.", field="action", given=other[:32])
    return text(OK)


def _user(text_: str) -> str:
    """Return the person that is meant: a number, a name, or the id of a stream."""
    named = names.state(text_)
    found = named[0] if named else text_.removeprefix("user/").removeprefix("@")
    if not found:
        raise InvalidError("Say which person.", field="u")
    return found


def edit_comment() -> Response:
    """Comment on a share."""
    if (action := one("action")) != "addcomment":
        raise InvalidError("There is no such action.", field="action", given=action[:32])
    share_id, words = names.item_id(one("i")), one("comment")
    try:
        services().talk.comment(actor(), share_id, words, once=True)
    except NotFoundError as e:
        raise NotFoundError("Only what somebody shares can be commented on.", share_id=share_id) from e
    return text(OK)


# -- preferences: apps of the old days want them to be there
def preferences() -> Response:
    """General preferences."""
    return data({"prefs": [{"id": "lhn-prefs", "value": '{"subscriptions":{"ssa":"true"}}'}]})


def stream_preferences() -> Response:
    """Preferences of streams: none, so each app sorts as it likes."""
    return data({"streamprefs": {}})


def set_preference() -> Response:
    """Taken and not kept: how lists look is each app's own."""
    return text(OK)
