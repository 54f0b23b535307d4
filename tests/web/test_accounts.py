"""Accounts: passwords, limits, equal answers, who is first, invitations: W05, W06, W07, W19, W21."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import secrets
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import argon2
import psutil
import pytest
import redis
from flask import Flask

from app import create_app
from app.adapters.redis.rate_limit import MemoryLimiter, RedisLimiter
from app.bootstrap.services import Services, build
from app.config import Settings
from app.errors import (
    AuthRequiredError,
    EventrError,
    ExistsError,
    ForbiddenError,
    InvalidError,
    RateLimitedError,
    SettingsError,
)
from app.models.accounts.actor import Actor, Role
from app.services.accounts import passwords, reserved_names
from app.services.accounts.passwords import Hasher
from app.services.accounts.sign_in import Client, SignUp
from app.web.security import devices
from app.web.security.keyfile import get_secret_key
from tests.support.reader import PASSWORD, add_user
from tests.web.conftest import Visitor

Make = Callable[[], Visitor]
HOME = Client("192.0.2.7")
OTHER = "another password 1"


def _form(name: str = "ann", password: str = PASSWORD, invite: str = "") -> SignUp:
    return SignUp(f"{name}@example.org", name, password, invite)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let everyone who hashes wait for it: who comes first is the question, not how fast."""
    monkeypatch.setattr(passwords, "SLOT_SECONDS", 60.0)


# -- W05
def test_W05_the_hash_is_argon2id_with_the_settings_cost(settings: Settings) -> None:
    stored = Hasher(settings).hash(PASSWORD)
    assert stored.startswith(f"$argon2id$v=19$m={settings.argon2_memory_kib},t={settings.argon2_time},p=4$")
    default = Settings()
    assert (default.argon2_memory_kib, default.argon2_time) == (65536, 3)


def test_W05_the_whole_password_counts(settings: Settings) -> None:
    hasher = Hasher(settings)
    stored = hasher.hash("x" * 72 + "a" * 128)
    assert hasher.verify(stored, "x" * 72 + "a" * 128)
    assert not hasher.verify(stored, "x" * 72 + "b" * 128)
    assert not hasher.verify(stored, "x" * 72)


@pytest.mark.parametrize(
    "password",
    ["short", "x" * 1025, "password1", "PASSWORD1", "qwertyuiop", "aaaaaaaa", "ann.long", "ann@example.org"],
)
def test_W05_weak_passwords_are_refused(password: str) -> None:
    with pytest.raises(InvalidError):
        passwords.check(password, name="ann.long", email="ann@example.org")


def test_W05_the_list_of_common_passwords_has_ten_thousand() -> None:
    assert len(passwords._common()) == 10_000
    passwords.check("x" * 1023 + "y")
    passwords.check("korrekt pferd batterie")


def test_W05_a_hash_with_weaker_parameters_is_renewed_at_log_in(
    services: Services, settings: Settings
) -> None:
    user = add_user(services)
    weak = argon2.PasswordHasher(time_cost=1, memory_cost=8192, parallelism=1).hash(PASSWORD)
    services.mappers.users.set_password(user.user_id, weak)
    services.sign_in.log_in("ann", PASSWORD, HOME)
    renewed = services.mappers.users.find_password_hash(user.user_id)
    assert f"m={settings.argon2_memory_kib}," in str(renewed)


@pytest.mark.parametrize("weak", [False, True])
def test_W01_a_log_in_with_the_old_password_does_not_outlive_the_new_one(
    services: Services, monkeypatch: pytest.MonkeyPatch, weak: bool
) -> None:
    """To check a password takes a while; meanwhile it may be changed, which ends all sessions there are."""
    user, accounts = add_user(services), services.gateways.accounts
    if weak:
        stored = argon2.PasswordHasher(time_cost=1, memory_cost=8192, parallelism=1).hash(PASSWORD)
        accounts.set_password(user.user_id, stored)
    verify, changed = services.hasher.verify, list[str]()

    def change(stored: str | None, password: str) -> bool:
        monkeypatch.setattr(services.hasher, "verify", verify)
        fits = verify(stored, password)
        changed.append(services.accounts.change_password(user, PASSWORD, OTHER, HOME))
        return fits

    monkeypatch.setattr(services.hasher, "verify", change)
    with pytest.raises(AuthRequiredError):
        services.sign_in.log_in("ann", PASSWORD, HOME)
    assert len(services.gateways.sessions.list_sessions(user.user_id)) == 1
    assert services.sign_in.resume(changed[0]), "of the browser that changed it"
    assert services.sign_in.log_in("ann", OTHER, HOME)


def test_W05_many_log_ins_at_once_take_bounded_memory(settings: Settings) -> None:
    hasher = Hasher(dataclasses.replace(settings, argon2_memory_kib=65536))
    stored = hasher.hash(PASSWORD)
    process, before, most = psutil.Process(), 0, 0
    before = process.memory_info().rss
    with ThreadPoolExecutor(50) as pool:
        tries = [pool.submit(hasher.verify, stored, PASSWORD) for _ in range(50)]
        for one in tries:
            assert isinstance(one.exception(), RateLimitedError | None)
            most = max(most, process.memory_info().rss)
    assert any(one.exception() is None and one.result() for one in tries)
    assert most - before < 200 << 20


def test_W23_a_new_password_makes_links_for_another_one_worth_nothing(services: Services) -> None:
    user = add_user(services)
    link = services.gateways.admin_accounts.create_reset_link(user.user_id)
    services.accounts.change_password(user, PASSWORD, OTHER, HOME)
    with pytest.raises(ForbiddenError):
        services.admin_accounts.choose_password(link, "a third password", HOME)
    assert services.sign_in.log_in("ann", OTHER, HOME)


# -- names
LOOK_ALIKE = {
    "ｖictim": "look-alike characters",  # full width
    "𝐯ictim": "look-alike characters",  # mathematical
    "ﬁrst": "look-alike characters",  # a ligature
    "vіctim": "one script",  # Cyrillic і
    "victimʼ": "one script",
    "vιctim": "one script",  # Greek iota
    "b०b": "one script",  # a Devanagari zero
    "victim٠": "one script",  # an Arabic zero, like a dot
    "": "2 to 32 letters",
    "  ": "2 to 32 letters",
    "victim.": "end with a dot",
    "Administrator": "is reserved",
    "e-ventr": "is reserved",
    "SUPPORT_": "is reserved",
}


@pytest.mark.parametrize(("name", "why"), LOOK_ALIKE.items())
def test_a_name_that_is_taken_for_another_is_refused(services: Services, name: str, why: str) -> None:
    ann = add_user(services)
    admin = Actor(0, Role.ADMIN)
    for take in (
        lambda: services.sign_in.sign_up(SignUp("v@example.org", name, PASSWORD), HOME),
        lambda: services.accounts.create_user(admin, "v@example.org", name, PASSWORD),
        lambda: services.accounts.change_identity(ann, name, "v@example.org", PASSWORD),
    ):
        with pytest.raises(InvalidError, match=why) as refused:
            take()
        assert refused.value.ids["field"] == "name"


@pytest.mark.parametrize(
    "name",
    ["admin", "Änne.b-2", "виктор_3", "東京のカレーlover", "민수2", "佐々木", "علي", "علي٢", "علی۲", "२पवन"],
)
def test_a_name_of_one_script_is_taken(services: Services, name: str) -> None:
    assert add_user(services, name)
    assert services.sign_in.log_in(name, PASSWORD, HOME)


def test_who_has_a_name_that_is_refused_now_keeps_it(services: Services) -> None:
    ann = add_user(services)
    services.gateways.accounts.set_identity(ann.user_id, "vіctim.", "ann@example.org")
    assert services.sign_in.log_in("vіctim.", PASSWORD, HOME)
    services.accounts.change_identity(ann, "vіctim.", "new@example.org", PASSWORD)
    with pytest.raises(InvalidError):
        services.accounts.change_identity(ann, "vіctima.", "new@example.org", PASSWORD)


# -- W06
@pytest.mark.parametrize("kind", ["redis", "memory"])
def test_W06_parallel_tries_stay_within_the_limit(kind: str, redis_client: redis.Redis) -> None:
    limiter = RedisLimiter(redis_client) if kind == "redis" else MemoryLimiter()
    with ThreadPoolExecutor(20) as pool:
        waits = list(pool.map(lambda _: limiter.count_try("login:ann", 5, 900), range(100)))
    assert waits.count(0) == 5
    assert all(0 < wait <= 15 for wait in waits if wait)
    assert limiter.count_try("login:bob", 5, 900) == 0
    limiter.reset("login:ann")
    assert limiter.count_try("login:ann", 5, 900) == 0


def test_W06_without_redis_this_process_counts(settings: Settings, db: Any) -> None:
    lost = dataclasses.replace(settings, redis_url="unix:///nowhere/redis.sock")
    services = build(lost)
    services.migrate()
    add_user(services)
    tries = Counter(_outcome(services, "ann", "wrong password") for _ in range(8))
    assert tries == {AuthRequiredError: settings.login_failures, RateLimitedError: 3}
    services.close()


def test_W06_the_delay_grows_and_never_becomes_a_lock(redis_client: redis.Redis) -> None:
    limiter = RedisLimiter(redis_client)
    for _ in range(5):
        assert limiter.count_try("x", 5, 900) == 0
    delays = []
    for _ in range(9):
        delays.append(limiter.count_try("x", 5, 900))
        redis_client.delete("eventr:try:x:gate")  # the time is over
        assert limiter.count_try("x", 5, 900) == 0
    assert delays == sorted(delays)
    assert delays[0] <= 15 < delays[1]
    assert max(delays) <= 900


def test_W06_log_ins_are_counted_per_account_and_per_network(services: Services, settings: Settings) -> None:
    add_user(services)
    for _ in range(settings.login_failures):
        assert _outcome(services, "ann", "wrong password") is AuthRequiredError
    assert _outcome(services, "ann", PASSWORD) is RateLimitedError
    assert _outcome(services, "ANN ", PASSWORD) is RateLimitedError
    elsewhere = Client("198.51.100.1")
    assert services.sign_in.log_in("ann", PASSWORD, elsewhere)
    outcomes = [_outcome(services, f"user{n}", "wrong password") for n in range(40)]
    assert outcomes.count(AuthRequiredError) == 30 - settings.login_failures


def test_W06_a_forged_address_gives_no_new_tries(
    services: Services, visitor: Make, settings: Settings
) -> None:
    add_user(services)
    form = {"login": "ann", "password": "wrong password"}
    codes = [visitor().post("/login", form, X_Forwarded_For=f"203.0.113.{n}").status_code for n in range(7)]
    assert codes == [401] * settings.login_failures + [429] * (7 - settings.login_failures)


def test_W06_a_browser_is_known_after_a_login(services: Services, app: Flask, visitor: Make) -> None:
    """Its cookie is signed and gives no access."""
    ann = add_user(services)
    browser = visitor()
    assert browser.log_in().status_code == 303
    cookie = browser.client.get_cookie("eventr-device")
    assert cookie is not None
    assert cookie.http_only
    for value, known in ((cookie.value, True), (cookie.value[:-1] + "!", False), ("x" * 600, False)):
        with app.test_request_context("/login", headers={"Cookie": f"eventr-device={value}"}):
            found = devices.find_device()
            assert (found is not None and found.user_id == ann.user_id) is known
    stranger = visitor()
    stranger.client.set_cookie("eventr-device", cookie.value)
    assert stranger.get("/settings").status_code in (302, 303, 401)


def _outcome(services: Services, name: str, password: str) -> type[EventrError] | None:
    try:
        services.sign_in.log_in(name, password, HOME)
    except EventrError as e:
        return type(e)
    return None


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.0/24"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("", "unknown"),
        ("x", "unknown"),
    ],
)
def test_W06_limits_go_by_network(address: str, network: str) -> None:
    assert Client(address).network == network


# -- W07
class Counting(Hasher):
    """Counts how often a hash is computed: that is what takes the time."""

    count = 0

    def verify(self, stored: str | None, password: str) -> bool:
        self.count += 1
        fits = super().verify(stored, password)
        assert stored is not None or not fits
        return fits

    def hash(self, password: str) -> str:
        self.count += 1
        return super().hash(password)


def test_W07_known_and_unknown_names_get_the_same_answer_and_work(services: Services, visitor: Make) -> None:
    add_user(services)
    services.__dict__["hasher"] = counting = Counting(services.settings)
    services.__dict__.pop("sign_in", None)
    seen = set()
    for name in ("ann", "ann@example.org", "nobody", "nobody@example.org"):
        answer = visitor().post("/login", {"login": name, "password": "wrong password"})
        page = re.sub(r'value="[^"]*"', "", answer.text)
        seen.add((answer.status_code, page, counting.count))
        counting.count = 0
    assert len(seen) == 1


def test_W07_sign_up_does_not_tell_which_addresses_have_accounts(services: Services, visitor: Make) -> None:
    """One account's address is vouched for, one's is only said; a third is new."""
    add_user(services)
    services.sign_in.sign_up(SignUp("bob@example.org", "bob", PASSWORD), HOME)
    services.__dict__["hasher"] = counting = Counting(services.settings)
    services.__dict__.pop("sign_in", None)
    seen = set()
    for number, email in enumerate(("ANN@example.org", "bob@example.org", "new@example.org")):
        one = visitor()
        answer = one.post("/signup", {"email": email, "name": f"eve{number}", "password": OTHER})
        assert email in one.get("/settings").text
        # Nor do the log-ins after it tell: by name they work, by address they do not.
        name, address = (
            visitor().post("/login", {"login": login, "password": OTHER}).status_code
            for login in (f"eve{number}", email)
        )
        seen.add((answer.status_code, answer.headers["Location"], name, address, counting.count))
        counting.count = 0
    assert seen == {(303, "/welcome", 303, 401, 3)}


def test_W07_an_address_that_is_only_said_logs_nobody_in(services: Services) -> None:
    """Else signing up with somebody's address would show by the log-in after it whether he has an account."""
    add_user(services)
    for name, email in (("eve", "ann@example.org"), ("eva", "free@example.org")):
        services.sign_in.sign_up(SignUp(email, name, OTHER), HOME)
        with pytest.raises(AuthRequiredError):
            services.sign_in.log_in(email, OTHER, HOME)
    assert services.sign_in.log_in("ANN@example.org", PASSWORD, HOME), "vouched for by who made the account"


def test_W07_names_are_public_and_said_to_be_taken(services: Services) -> None:
    add_user(services, "Ann")
    with pytest.raises(ExistsError) as caught:
        services.sign_in.sign_up(SignUp("x@example.org", "aNN", PASSWORD), HOME)
    assert (caught.value.message, caught.value.ids["field"]) == (
        "This user name is taken. Choose another one.",
        "name",
    )


# -- W19
@pytest.mark.parametrize(
    "key",
    [
        "",
        "short",
        "a" * 64,
        "changeme" * 8,
        "0123456789abcdef0123456789abcdef",
        "0123456789abcdefghijklmnopqrstuvwxyz",
        "zyxwvutsrqponmlkjihgfedcba9876543210",
        "your-secret-key-here-please-change-it",
        "My-PassWord-is-quite-long-and-not-random",
        "eventr-production-key-of-the-year-2026",
        "k7Qx2mVb9T" * 4 + "k7Q",
    ],
)
def test_W19_a_weak_key_is_refused(services: Services, settings: Settings, key: str) -> None:
    with pytest.raises(SettingsError):
        create_app(dataclasses.replace(settings, secret_key=key), services)


def test_W19_a_random_key_is_taken(settings: Settings) -> None:
    for length in (24, 32, 48):
        for make in (secrets.token_urlsafe, secrets.token_hex):
            key = make(length)
            assert get_secret_key(dataclasses.replace(settings, secret_key=key)) == key.encode()


def test_W19_there_is_no_debugger(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLASK_DEBUG", "1")
    app = create_app(services.settings, services)
    assert app.debug is False
    assert app.testing is False


# -- W21
def test_W21_of_parallel_first_sign_ups_one_becomes_admin(services: Services, db: Any, patient: None) -> None:
    services = _with(services, web_threads=64)
    with ThreadPoolExecutor(20) as pool:
        done = list(pool.map(lambda n: services.sign_in.sign_up(_form(f"user{n}"), HOME), range(20)))
    assert len(set(done)) == 20
    assert Counter(u["role"] for u in db.users.find()) == {"admin": 1, "user": 19}


def test_W21_by_default_the_second_account_needs_an_invite(services: Services) -> None:
    usual = _with(services, signup=Settings().signup)
    assert usual.sign_in.get_signup_mode() == "first"
    usual.sign_in.sign_up(_form("root"), HOME)
    with pytest.raises(ForbiddenError):
        usual.sign_in.sign_up(_form("late"), HOME)
    token = usual.admin_accounts.create_invite(Actor(0, Role.ADMIN))
    assert usual.sign_in.sign_up(_form("late", invite=token), HOME)


def test_W21_closed_means_closed_after_the_first(services: Services) -> None:
    closed = _with(services, signup="closed")
    assert closed.sign_in.get_signup_mode() == "first"
    closed.sign_in.sign_up(_form("root"), HOME)
    assert closed.sign_in.get_signup_mode() == "closed"
    with pytest.raises(ForbiddenError):
        closed.sign_in.sign_up(_form("late"), HOME)


def test_W21_an_invitation_is_good_once(services: Services, db: Any, patient: None) -> None:
    invite = _with(services, signup="invite", web_threads=64)
    admin = add_user(services, "root", Role.ADMIN)
    token = invite.admin_accounts.create_invite(admin)
    assert token not in repr(list(db.invites.find()))
    with pytest.raises(ExistsError):
        invite.sign_in.sign_up(_form("root", invite=token), HOME)
    with ThreadPoolExecutor(8) as pool:
        outcomes = Counter(pool.map(lambda n: _sign_up(invite, f"user{n}", token), range(8)))
    assert outcomes == {None: 1, ForbiddenError: 7}
    assert db.users.count_documents({}) == 2
    with pytest.raises(ForbiddenError):
        invite.admin_accounts.create_invite(add_user(services, "plain"))


def _sign_up(services: Services, name: str, token: str) -> type[EventrError] | None:
    try:
        services.sign_in.sign_up(_form(name, invite=token), HOME)
    except EventrError as e:
        return type(e)
    return None


def _with(services: Services, **changes: Any) -> Services:
    made = Services(dataclasses.replace(services.settings, **changes))
    made.__dict__.update(
        {name: services.__dict__[name] for name in ("store", "jobs") if name in services.__dict__}
    )
    return made


@pytest.mark.parametrize(
    ("wish", "free"),
    [
        ("Ann Example", "ann-example"),
        ("  Jörg  Müller! ", "jörg-müller"),
        ("ann@example.org", "ann-example.org"),
        ("Мария Иванова", "мария-иванова"),
        ("x", ""),
        ("moderator", ""),
        ("a" * 40, "a" * 32),
        ("...", ""),
    ],
)
def test_a_name_near_the_wish_is_suggested(wish: str, free: str) -> None:
    assert reserved_names.suggest_name(wish) == free


def test_the_name_is_checked_while_it_is_typed(services: Services, visitor: Make) -> None:
    add_user(services, "ann", Role.ADMIN)
    services.accounts.change_identity(add_user(services, "kim"), "kim2", "kim@example.org", PASSWORD)
    one = visitor()
    found = {
        name: one.get("/signup/name", query_string={"name": name}).get_json()
        for name in ("bob", "Ann", "Ann Example", "kim")
    }
    assert found["bob"] == {"problem": "", "suggestion": ""}
    assert (found["Ann"]["suggestion"], found["Ann Example"]["suggestion"]) == ("Ann-2", "ann-example")
    assert "taken" in found["Ann"]["problem"]
    assert "2 to 32 letters" in found["Ann Example"]["problem"]
    assert found["kim"]["suggestion"] == "kim-2", "a former name stays reserved"
    add_user(services, "ann-example")
    taken = one.get("/signup/name", query_string={"name": "Ann Example"}).get_json()
    assert taken["suggestion"] == "ann-example-2"


def test_W06_names_are_checked_a_limited_number_of_times(services: Services, visitor: Make) -> None:
    add_user(services, "ann", Role.ADMIN)
    services.sign_in._settings = dataclasses.replace(services.settings, login_names=3)
    one = visitor()
    codes = [one.get("/signup/name?name=bob").status_code for _ in range(4)]
    assert codes == [200, 200, 200, 429]


def test_W07_names_of_people_are_told_on_open_servers_only(services: Services, settings: Settings) -> None:
    add_user(services, "ann", Role.ADMIN)
    with contextlib.closing(build(dataclasses.replace(settings, signup="invite"))) as invited:
        found = [invited.sign_in.check_name(name, HOME) for name in ("ann", "free", "Ann!")]
    assert [(one.problem is None, one.suggestion) for one in found] == [
        (True, ""),
        (True, ""),
        (False, "ann"),
    ]


def test_a_closed_server_says_nothing_about_names(services: Services, settings: Settings) -> None:
    add_user(services, "ann", Role.ADMIN)
    closed = build(dataclasses.replace(settings, signup="closed"))
    try:
        with pytest.raises(ForbiddenError):
            closed.sign_in.check_name("ann", HOME)
    finally:
        closed.close()


def test_a_refused_sign_up_suggests_a_free_name(visitor: Make) -> None:
    for email in ("ann@example.org", "ann2@example.org"):
        page = visitor().post("/signup", {"email": email, "name": "ann", "password": PASSWORD})
    assert page.status_code == 409
    assert "For example: ann-2<" in page.text


def test_a_refused_sign_up_keeps_what_was_typed_and_suggests_a_name(visitor: Make) -> None:
    sent = {"email": "ann@example.org", "name": "Ann Example", "password": PASSWORD}
    page = visitor().post("/signup", sent)
    assert page.status_code == 400
    assert 'value="Ann Example"' in page.text
    assert 'value="ann@example.org"' in page.text
    assert "For example: ann-example" in page.text
    assert PASSWORD not in page.text, "a password never comes back in a page"
    answer = visitor().post("/signup", sent, Accept="application/json")
    assert answer.status_code == 400
    assert answer.get_json()["field"] == "name"
    good = visitor().post("/signup", {**sent, "name": "ann-example"}, Accept="application/json")
    assert good.get_json() == {"next": "/welcome"}


def test_W07_an_address_logs_in_once_an_admin_has_confirmed_it(services: Services, visitor: Make) -> None:
    add_user(services, "root", Role.ADMIN)
    services.sign_in.sign_up(SignUp("eve@example.org", "eve", OTHER), HOME)
    services.sign_in.sign_up(SignUp("EVE@example.org", "eva", OTHER), HOME)
    with pytest.raises(AuthRequiredError):
        services.sign_in.log_in("eve@example.org", OTHER, HOME)
    eve, eva = (services.gateways.accounts.find_by_name(name) for name in ("eve", "eva"))
    root = visitor()
    root.log_in("root")
    assert "Confirm email address" in root.get(f"/admin/users/{eve}").text
    assert root.post(f"/admin/users/{eve}/confirm", {"proof": PASSWORD}).status_code == 303
    assert "Confirm email address" not in root.get(f"/admin/users/{eve}").text
    assert services.sign_in.log_in("Eve@Example.org", OTHER, HOME)
    refused = root.post(f"/admin/users/{eva}/confirm", {"proof": PASSWORD})
    assert refused.status_code == 409
    assert "Another account uses this email address" in refused.text
    actor = Actor(eve or 0)
    services.accounts.change_identity(actor, "eve", "other@example.org", OTHER)
    for email in ("eve@example.org", "other@example.org"):
        with pytest.raises(AuthRequiredError):
            services.sign_in.log_in(email, OTHER, HOME)
    one = visitor()
    one.log_in("eva", OTHER)
    assert one.post(f"/admin/users/{eve}/confirm", {"proof": OTHER}).status_code == 404


def test_names_and_vouched_addresses_are_unique_in_any_case(services: Services) -> None:
    add_user(services, "Ann")
    admin = Actor(0, Role.ADMIN)
    for name, email, field in (("aNN", "x@example.org", "name"), ("xyz", "ANN@EXAMPLE.ORG", "email")):
        with pytest.raises(ExistsError) as caught:
            services.accounts.create_user(admin, email, name, PASSWORD)
        assert caught.value.ids["field"] == field


def test_the_first_user_logs_in_by_his_address_too(services: Services) -> None:
    services.sign_in.sign_up(_form("root"), HOME)
    assert services.sign_in.log_in("Root@example.org", PASSWORD, HOME)


def test_a_store_of_before_gives_up_its_index_of_addresses(services: Services, db: Any) -> None:
    db.users.drop_indexes()
    db.users.create_index("email_key", unique=True, name="email")
    db.schema.drop()
    for _ in range(2):
        services.migrate()
        assert {"name", "vouched", "first"} < set(db.users.index_information())
        assert "email" not in db.users.index_information()


@pytest.mark.parametrize(
    ("name", "email"),
    [("a", "a@b"), ("x" * 33, "a@b"), ("<b>", "a@b"), ("a b", "a@b"), ("ann", "a"), ("ann", "a@"),
     ("ann", "a b@c"), ("ann", "a@b\r\nBcc: x"), ("ann", f"{'x' * 250}@example.org")],
)  # fmt: skip
def test_names_and_addresses_that_cannot_be_ones(services: Services, name: str, email: str) -> None:
    with pytest.raises(InvalidError):
        services.sign_in.sign_up(SignUp(email, name, PASSWORD), HOME)


def test_signing_up_logs_in_and_shows_where_to_begin(visitor: Make, db: Any) -> None:
    one = visitor()
    assert "Set up this server" in one.get("/").text
    done = one.post("/signup", {"email": "a@example.org", "name": "ann", "password": PASSWORD})
    assert done.headers["Location"] == "/welcome"
    assert one.get("/settings").status_code == 200
    assert db.users.find_one()["role"] == "admin"


def test_a_form_with_an_error_keeps_what_was_entered(visitor: Make) -> None:
    answer = visitor().post("/signup", {"email": "a@example.org", "name": "ann", "password": "12345678"})
    assert answer.status_code == 400
    assert 'value="a@example.org"' in answer.text
    assert "12345678" not in answer.text
    assert "aria-invalid" in answer.text


def test_an_invite_is_pasted_as_a_link_or_as_its_code(visitor: Callable[..., Visitor]) -> None:
    fresh = visitor()
    assert 'name="invite"' in fresh.get("/signup").text
    for pasted in ("AbC-1", " AbC-1 ", "https://reader.example/signup?invite=AbC-1&x=1"):
        page = fresh.get("/signup", query_string={"invite": pasted}).text
        assert 'name="invite" value="AbC-1"' in page, pasted
    assert fresh.get("/signup", query_string={"invite": "x" * 300}).status_code == 200
