"""``eventr settings``, ``eventr doctor`` and what the processes are started with."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import resource
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pymongo
import pytest
import redis
from click.testing import CliRunner, Result

from app import cli, config, embedded
from app.commands import ports, processes, requirements, secret, stores, web_address
from app.config import Settings
from app.embedded import EmbeddedServers, child, known_holes
from app.embedded.known_holes import HOLES
from app.embedded.mongodb import MongoDB
from app.errors import SettingsError, StartupError
from app.models.operations.check_result import CheckResult, Severity
from app.monitoring import health
from tests.support.refusal import refusing


def _run(*words: str, **environment: str) -> Result:
    return CliRunner().invoke(cli.cli, list(words), env=environment)


# -- settings


def test_settings_show_values_and_hide_secrets() -> None:
    secret_text = "s3cret-" + "0123456789abcdef" * 2
    result = _run(
        "settings",
        "--json",
        EVENTR_SECRET_KEY=secret_text,
        EVENTR_MONGODB_URI="mongodb://user:s3cret@db/",
        EVENTR_PORT="9",
    )
    assert "s3cret" not in result.stdout
    table = json.loads(result.stdout)
    assert set(table) == {field.name for field in dataclasses.fields(Settings)}
    assert table["port"] == {
        "name": "port",
        "env": "EVENTR_PORT",
        "value": "9",
        "default": "8080",
        "help": table["port"]["help"],
        "secret": False,
        "common": True,
    }
    assert table["secret_key"]["value"] == "•••"
    assert all(row["help"] for row in table.values())


def test_settings_as_text_say_what_was_changed() -> None:
    lines = _run("settings", EVENTR_PORT="9").stdout.splitlines()
    assert "EVENTR_PORT = 9   (default 8080)" in lines
    assert "EVENTR_HOST = 127.0.0.1" in lines


@pytest.mark.parametrize("given", [{}, {"EVENTR_REDIS_URL": ""}, {"EVENTR_REDIS_URL": " "}])
def test_a_secret_is_read_from_its_file(tmp_path: Path, given: dict[str, str]) -> None:
    path = tmp_path / "url"
    path.write_text("redis://far/0\n")
    settings = Settings.from_env({**given, "EVENTR_REDIS_URL_FILE": str(path)})
    assert settings.redis_url == "redis://far/0"


@pytest.mark.parametrize(
    ("content", "given", "why"),
    [
        (b"", {}, "is empty"),
        (b" \n", {}, "is empty"),
        (b"", {"EVENTR_REDIS_URL": ""}, "is empty"),
        (b"redis://\xff/0", {}, "isn't valid UTF-8"),
        (b"redis://far/0", {"EVENTR_REDIS_URL": "redis://near/0"}, "are both set"),
    ],
)
def test_a_secret_file_is_never_passed_over(
    tmp_path: Path, content: bytes, given: dict[str, str], why: str
) -> None:
    path = tmp_path / "url"
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=f"^EVENTR_REDIS_URL.*{why}"):
        Settings.from_env({**given, "EVENTR_REDIS_URL_FILE": str(path)})


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("base_url", "https://reader.example/news", "without a path"),
        ("base_url", "https://reader.example/?a=1", "without a path"),
        ("base_url", "https://reader.example?", "without a path"),
        ("base_url", "https://reader.example/#top", "without a path"),
        ("base_url", "https://me@reader.example", "without a path"),
        ("base_url", "https://", "without a path"),
        ("base_url", "https://:8080", "without a path"),
        ("base_url", "https://reader.example:web", "without a path"),
        ("base_url", "https://[::1", "without a path"),
        ("base_url", "https://reader .example", "without a path"),
        ("base_url", "https://reader\n.example", "without a path"),
        ("base_url", "https://reader\\.example", "without a path"),
        ("base_url", "https://reader.example:0", "without a path"),
        ("base_url", "https://bücher.example", "xn--"),
        ("base_url", "http://[fe80::1%25eth0]:80", "without a path"),
        ("base_url", "https://reader.example:", "without a path"),
        ("base_url", "https://reader..example", "without a path"),
        ("base_url", "https://.example", "without a path"),
        ("base_url", "https://reader.example:123456", "without a path"),
        ("base_url", "ftp://reader.example", "without a path"),
        ("mongodb_name", "a b", "without spaces"),
        ("mongodb_name", "a/b", "without spaces"),
        ("mongodb_name", "a\udcff", "without spaces"),
        ("mongodb_name", "$a", "without spaces"),
        ("mongodb_name", "", "at most 63"),
        ("mongodb_name", "a" * 64, "at most 63"),
        ("user_agent", "Reader\r\nX-Own: 1", "single line"),
        ("user_agent", "Reader\nX-Own: 1", "single line"),
        ("user_agent", "Lése", "ASCII"),
        ("fetch_ports", "0,80", "from 1 to 65535"),
        ("fetch_ports", "80,99999", "from 1 to 65535"),
        ("embedded_cache", "1", "between 268435456 and 1099511627776\\."),
        ("job_backoff", "0", "between 0\\.01 and 3600\\."),
        ("packs_dir", "/dev/null", "be a readable folder"),
        ("packs_dir", "/no/such/folder", "be a readable folder"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(name: str, value: str, what: str) -> None:
    with pytest.raises(SettingsError, match=f"^{config.build_env_name(name)} must .*{what}"):
        Settings.from_env({config.build_env_name(name): value})


@pytest.mark.parametrize("url", ["", "https://reader.example/", "http://[::1]:8080", "http://lan_host"])
def test_an_address_of_a_server_is_taken(url: str) -> None:
    assert Settings.from_env({"EVENTR_BASE_URL": url}).own_origin == (
        url.rstrip("/") or "http://127.0.0.1:8080"
    )


def test_packs_may_lie_in_a_folder_of_ones_own(tmp_path: Path) -> None:
    assert Settings.from_env({"EVENTR_PACKS_DIR": str(tmp_path)}).packs_dir == tmp_path


# -- doctor


def _findings(run: Iterator[CheckResult]) -> dict[Severity, list[str]]:
    found: dict[Severity, list[str]] = {}
    for finding in run:
        found.setdefault(finding.word, []).append(finding.text)
    return found


def test_doctor_is_content_with_good_servers(services: Any, settings: Settings) -> None:
    assert set(_findings(health.check_mongodb(settings))) == {Severity.OK}
    assert Severity.FAIL not in _findings(health.check_redis(settings))


def test_doctor_names_missing_indexes(db: Any, settings: Settings) -> None:
    assert any(
        "Missing indexes: " in text for text in _findings(health.check_mongodb(settings))[Severity.WARN]
    )


def test_doctor_names_a_server_that_keeps_transactions_of_the_dead(db: Any, settings: Settings) -> None:
    admin = db.client.admin
    before = admin.command("setParameter", 1, transactionLifetimeLimitSeconds=60)["was"]
    try:
        texts = _findings(health.check_mongodb(settings))[Severity.WARN]
    finally:
        admin.command("setParameter", 1, transactionLifetimeLimitSeconds=before)
    assert any("A crashed process can block a feed for 90 s" in text for text in texts)
    assert before == 5


def test_doctor_advises_where_it_cannot_see(
    services: Any, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A parameter that the server does not know: so a mongos answers, for it has none of this name."""
    monkeypatch.setattr(health, "SERVER_PARAMETER", "parameterOfAnother")
    found = _findings(health.check_mongodb(settings))
    assert set(found) == {Severity.OK}
    assert any("start mongod with --setParameter parameterOfAnother=5" in text for text in found[Severity.OK])


def test_doctor_says_how_to_start_what_does_not_answer(tmp_path: Path) -> None:
    result = _run("doctor", EVENTR_HOME=str(tmp_path / "home"))
    assert result.exit_code == 1
    rows = [line.split(None, 2) for line in result.stdout.splitlines()]
    failed = {check: text for word, check, text in rows if word == "fail"}
    assert set(failed) == {"mongodb", "redis"}
    assert all("Start 'eventr up'" in text for text in failed.values())
    assert not (tmp_path / "home").exists(), "it changes nothing"


def test_doctor_refuses_a_redis_that_loses_jobs(settings: Settings, redis_client: redis.Redis) -> None:
    redis_client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        found = _findings(health.check_redis(settings))
    finally:
        redis_client.config_set("maxmemory-policy", "noeviction")
    assert any("loses jobs" in text for text in found[Severity.FAIL])


def test_doctor_says_what_the_redis_of_the_cache_evicts(
    settings: Settings, redis_client: redis.Redis
) -> None:
    own = dataclasses.replace(settings, cache=True, cache_url=settings.redis_url)

    def find(severity: Severity) -> list[str]:
        return _findings(health.check_cache(own))[severity]

    try:
        assert "evicts no keys (noeviction)" in find(Severity.OK)[0]
        redis_client.config_set("maxmemory", int(redis_client.info("memory")["used_memory"] * 1.05))
        for policy in ("noeviction", "volatile-lru"):
            redis_client.config_set("maxmemory-policy", policy)
            assert (
                f"nearly full and evicts nothing of the cache (maxmemory-policy {policy})"
                in find(Severity.WARN)[0]
            )
        redis_client.config_set("maxmemory-policy", "allkeys-lfu")
        assert "evicts keys when memory is low (allkeys-lfu)" in find(Severity.OK)[0]
    finally:
        redis_client.config_set("maxmemory", 0)
        redis_client.config_set("maxmemory-policy", "noeviction")


def test_doctor_fails_where_redis_refuses_to_write(settings: Settings, redis_client: redis.Redis) -> None:
    with refusing(settings.redis_url):
        found = _findings(health.check_redis(settings))
    assert any("Redis rejects writes (MISCONF)" in text for text in found[Severity.FAIL])
    assert not any("Start 'eventr" in text for texts in found.values() for text in texts)
    assert redis_client.keys() == []


def test_doctor_fails_where_a_full_disk_takes_nothing_more(tmp_path: Path) -> None:
    """The limit of a file's size stands for the disk's end: a file can be made, and not be written to."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    try:
        found = _findings(health.check_disk(Settings(home=tmp_path)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert set(found) == {Severity.FAIL}
    assert "Free up space" in found[Severity.FAIL][0]


def test_doctor_names_a_home_that_cannot_be_looked_at(tmp_path: Path) -> None:
    """As below a folder that is somebody else's. What is too long a name cannot be looked at by anybody."""
    found = _findings(health.check_disk(Settings(home=tmp_path / ("x" * 300))))
    assert set(found) == {Severity.FAIL}
    assert "set EVENTR_HOME" in found[Severity.FAIL][0]


@pytest.mark.parametrize("uri", ["mongodb://", "mongodb://h:p:q/", "mongodb://h:p/"])
def test_doctor_names_an_address_of_mongodb_that_cannot_be_read(uri: str) -> None:
    (text,) = _findings(health.check_mongodb(Settings(mongodb_uri=uri)))[Severity.FAIL]
    assert "check EVENTR_MONGODB_URI" in text


def test_doctor_names_an_address_of_redis_that_cannot_be_read_and_quotes_nothing() -> None:
    (text,) = _findings(health.check_redis(Settings(redis_url="redis://x:hunter2/0")))[Severity.FAIL]
    assert "check EVENTR_REDIS_URL" in text
    assert "hunter2" not in text


@pytest.mark.parametrize("host", ["bad host", "a..b"])
def test_a_host_that_is_no_name_answers_nothing(host: str) -> None:
    assert not web_address.is_responding(Settings(host=host))


def test_up_asks_servers_of_others_before_it_starts_its_own(tmp_path: Path) -> None:
    home = tmp_path / "home"
    result = _run("up", EVENTR_HOME=str(home), EVENTR_REDIS_URL="redis://x:y/0")
    assert isinstance(result.exception, StartupError)
    assert not home.exists()


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("6.0.9", ["fail"]),
        ("6.2.14", ["ok", "warn"]),
        ("6.2.19", ["ok", "warn"]),
        ("6.2.20", ["ok"]),
        ("7.0.15", ["ok", "warn"]),
        ("8.2.1", ["ok", "warn"]),
        ("8.2.2", ["ok"]),
        ("8.4.0", ["ok"]),
    ],
)
def test_J02_doctor_knows_the_releases_of_redis(version: str, words: list[str]) -> None:
    found = list(health._redis_version("redis://127.0.0.1/0", {"redis_version": version, "tcp_port": 6379}))
    assert [each.word for each in found] == words
    assert ("CVE-2025-49844" in found[-1].text) == ("warn" in words)


@pytest.mark.parametrize(
    ("version", "affected"),
    [
        ((6, 0, 5), True),
        ((6, 0, 26), True),
        ((6, 0, 27), False),
        ((6, 1, 9), True),
        ((7, 0, 28), False),
        ((8, 0, 16), True),
        ((8, 2, 3), False),
        ((9, 0, 0), False),
    ],
)
def test_J03_doctor_knows_the_releases_of_mongodb(version: tuple[int, ...], affected: bool) -> None:
    open_ = list(known_holes.check_version("mongodb", version, closed=False))
    closed = list(known_holes.check_version("mongodb", version, closed=True))
    assert [each.word for each in open_] == ["warn"] * affected
    assert [each.word for each in closed] == ["ok"] * affected
    assert all("CVE-2025-14847" in each.text for each in open_ + closed)


def test_J02_J03_the_embedded_servers_close_the_holes_that_they_have(
    settings: Settings, servers: EmbeddedServers
) -> None:
    """Real servers: a hole of theirs is named as closed, or they have none."""
    with pymongo.MongoClient[Any](servers.mongodb_uri) as client:
        version = tuple(client.server_info()["versionArray"][:3])
    with redis.Redis.from_url(servers.redis_url, decode_responses=True) as store:
        parts = str(store.info()["redis_version"]).split(".")[:3]
    for check, found, at in (
        ("mongodb", health.check_mongodb(settings), version),
        ("redis", health.check_redis(settings), tuple(map(int, parts))),
    ):
        said = [each for each in found if "CVE-" in each.text]
        holes = [hole for hole in HOLES if hole.check == check and hole.is_in(at)]
        assert [each.word for each in said] == [Severity.OK] * len(holes)


def test_J03_a_mongod_that_compresses_messages_is_a_warning(tmp_path: Path) -> None:
    """One that offers zlib, as mongod does by default."""

    class Compressing(MongoDB):
        def build_command(self, program: Path) -> Sequence[str]:
            words = list(super().build_command(program))
            words[words.index("--networkMessageCompressors") + 1] = "snappy,zlib"
            return words

    own = Settings(home=tmp_path, embedded_cache=1 << 28)
    server = Compressing(own)
    server.start()
    try:
        server.wait()
        with pymongo.MongoClient[Any](server.address) as client:
            version = tuple(client.server_info()["versionArray"][:3])
            found = [each.word for each in health._mongodb_holes(client, version)]
        assert found == [Severity.WARN] * any(h.check == "mongodb" and h.is_in(version) for h in HOLES)
    finally:
        server.stop()


def test_J02_a_redis_with_a_port_or_an_open_socket_is_not_only_ours(servers: EmbeddedServers) -> None:
    url = servers.redis_url
    assert health._is_only_ours(url, {"tcp_port": 0})
    assert not health._is_only_ours(url, {"tcp_port": 6379})
    assert not health._is_only_ours("unix:///nowhere/redis.sock", {"tcp_port": 0})
    assert not health._is_only_ours("redis://127.0.0.1/0", {"tcp_port": 0})
    path = Path(urlsplit(url).path)
    path.chmod(0o660)
    try:
        assert not health._is_only_ours(url, {"tcp_port": 0})
    finally:
        path.chmod(0o600)


def test_doctor_tells_a_lone_mongodb_from_a_replica_set() -> None:
    assert health._replica_set({"setName": "rs0"}, direct=False).word is Severity.OK
    assert health._replica_set({"msg": "isdbgrid"}, direct=False).word is Severity.OK
    assert "--replSet" in health._replica_set({}, direct=True).text


def test_doctor_names_an_address_that_knows_one_server_of_a_set() -> None:
    several = {"setName": "rs0", "hosts": ["one:27017", "two:27017", "three:27017"]}
    found = health._replica_set(several, direct=True)
    assert (found.word, "directConnection" in found.text) == (Severity.WARN, True)
    assert health._replica_set(several, direct=False).word is Severity.OK
    assert health._replica_set({"setName": "rs0", "hosts": ["one:27017"]}, direct=True).word is Severity.OK


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({}, "ok"),
        ({"host": "0.0.0.0"}, "warn"),
        ({"host": "0.0.0.0", "base_url": "https://r.example"}, "ok"),
        ({"base_url": "http://r.example"}, "warn"),
    ],
)
def test_doctor_sees_settings_that_do_not_fit_together(changes: dict[str, Any], word: str) -> None:
    assert [f.word for f in health.check_settings(Settings(**changes))] == [word]


def test_doctor_reports_a_wrong_setting_as_a_finding() -> None:
    result = _run("doctor", "--json", EVENTR_PORT="many")
    assert result.exit_code == 1
    assert "EVENTR_PORT" in json.loads(result.stdout)["checks"][-1]["text"]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("EVENTR_FETCH_ALLOW", "foo"),
        ("EVENTR_FETCH_PROXY", "http://"),
        ("EVENTR_FETCH_PROXY", "http://u:p@[bad"),
        ("EVENTR_FETCH_PROXY", "socks5h://:1080"),
        ("EVENTR_FETCH_PROXY", "http://proxy:many"),
        ("EVENTR_QUEUES_FILE", "/no/such/file"),
        ("EVENTR_SECRET_KEY", "k" * 50),
        ("EVENTR_PACKS_DIR", "/no/such/folder"),
    ],
)
def test_what_a_process_would_die_of_is_told_before(tmp_path: Path, variable: str, value: str) -> None:
    environment = {"EVENTR_HOME": str(tmp_path / "home"), variable: value}
    rows = json.loads(_run("doctor", "--json", **environment).stdout)["checks"]
    assert [variable in row["text"] for row in rows if row["word"] == "fail"] == [True]
    started = _run("up", **environment)
    assert isinstance(started.exception, SettingsError)
    assert variable in started.exception.message
    assert not (tmp_path / "home").exists(), "nothing was started"


@pytest.mark.parametrize(("mode", "fails"), [(0o755, True), (0o700, False)])
def test_doctor_knows_a_run_folder_that_up_refuses(tmp_path: Path, mode: int, fails: bool) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run").chmod(mode)
    rows = json.loads(_run("doctor", "--json", EVENTR_HOME=str(tmp_path)).stdout)["checks"]
    told = [row["text"] for row in rows if row["word"] == "fail" and "EVENTR_HOME" in row["text"]]
    assert [("chmod 700" in text) for text in told] == [True] * fails


def test_variables_that_are_no_settings_are_named() -> None:
    given = ("EVENTR_FETCH_ALOW", "EVENTR_PORT_FILE", "EVENTR_PORT", "EVENTR_REDIS_URL_FILE", "OTHER")
    assert config.find_unknown_settings(dict.fromkeys(given, "1")) == [
        "EVENTR_FETCH_ALOW isn't a setting. Did you mean EVENTR_FETCH_ALLOW?",
        "EVENTR_PORT_FILE isn't used: only secrets can come from a file. Set EVENTR_PORT instead.",
    ]


def test_a_stray_variable_is_told_of_by_doctor_and_at_the_start(
    home: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EVENTR_HOME", str(home.home))
    monkeypatch.setenv("EVENTR_PROT", "1")
    rows = json.loads(_run("doctor", "--json").stdout)["checks"]
    assert any(row["word"] == "warn" and "EVENTR_PORT" in row["text"] for row in rows)
    with pytest.raises(StartupError):
        processes.prepare("manager")
    assert "EVENTR_PROT isn't a setting" in capsys.readouterr().err


# -- the secret key


@pytest.fixture
def home() -> Iterator[Settings]:
    folder = Path(tempfile.mkdtemp(prefix="eventr-home-"))
    yield Settings(home=folder)
    shutil.rmtree(folder)


def test_W19_a_key_is_made_once_and_for_this_user_alone(home: Settings) -> None:
    key = secret.ensure_secret_key(home).secret_key
    path = home.home / "secret_key"
    assert len(key) >= 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert secret.ensure_secret_key(home).secret_key == key
    path.unlink()
    assert secret.ensure_secret_key(home).secret_key != key


def test_W19_processes_that_start_at_once_get_the_same_key(home: Settings) -> None:
    barrier, keys = threading.Barrier(8), set()

    def make() -> None:
        barrier.wait(30)
        keys.add(secret.ensure_secret_key(home).secret_key)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(keys) == 1
    assert [p.name for p in home.home.iterdir() if "secret" in p.name] == ["secret_key"]


def test_W19_a_key_that_others_can_read_is_refused(home: Settings) -> None:
    secret.ensure_secret_key(home)
    (home.home / "secret_key").chmod(0o644)
    with pytest.raises(SettingsError, match="chmod 600"):
        secret.ensure_secret_key(home)


@pytest.mark.parametrize("text", ["", "short", "a" * 64])
def test_W19_a_weak_key_in_the_file_is_refused(home: Settings, text: str) -> None:
    path = home.home / "secret_key"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(SettingsError):
        secret.ensure_secret_key(home)


def test_W19_debug_cannot_be_switched_on_from_outside(
    monkeypatch: pytest.MonkeyPatch, servers: embedded.EmbeddedServers
) -> None:
    monkeypatch.setenv("FLASK_DEBUG", "1")
    for name, value in {
        "EVENTR_MONGODB_URI": servers.mongodb_uri,
        "EVENTR_REDIS_URL": servers.redis_url,
        "EVENTR_SECRET_KEY": "pK3v9sXq7Lw2Zr8Tn5Yb1Hd6Jf4Gm0Ca",
        "EVENTR_PORT": "0",
    }.items():
        monkeypatch.setenv(name, value)
    seen: list[str | None] = []
    monkeypatch.setattr(processes, "_gunicorn", lambda settings: seen.append(os.environ.get("FLASK_DEBUG")))
    processes.web.main([], standalone_mode=False)
    assert seen == [None]


# -- the web tier


def test_W17_gunicorn_leaves_nothing_open() -> None:
    options = processes.build_gunicorn_options(Settings(host="::1", port=1))
    assert options["bind"] == "[::1]:1"
    assert options["umask"] == 0o077
    assert options["control_socket_disable"] is True
    assert options["header_map"] == "refuse"
    assert options["forwarded_allow_ips"] == ""
    from gunicorn.config import Config

    known = Config()
    for name, value in options.items():
        known.set(name, value)  # an unknown name or a wrong value raises


def test_port_0_gives_a_free_port() -> None:
    assert ports.require_free("127.0.0.1", 0) > 0


def test_a_host_without_address_is_named() -> None:
    with pytest.raises(StartupError, match=r"EVENTR_HOST is 300\.1\.1\.1, which isn't an address"):
        ports.require_free("300.1.1.1", 0)
    with pytest.raises(StartupError, match=r"EVENTR_HOST is a\.\.b, which isn't an address"):
        ports.require_free("a..b", 0)


def test_a_process_alone_says_that_its_servers_are_missing(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENTR_HOME", str(home.home))
    with pytest.raises(
        StartupError, match=r"MongoDB isn't running\. Start everything with 'eventr up', or set"
    ):
        processes.prepare("manager")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"mongodb_uri": "mongodb://127.0.0.1:9/"}, r"MongoDB isn't responding .*Check EVENTR_MONGODB_URI"),
        ({"redis_url": "redis://127.0.0.1:9/0"}, r"Redis isn't responding .*Check EVENTR_REDIS_URL"),
        ({"mongodb_uri": "mongodb://"}, r"MongoDB isn't responding .*Check EVENTR_MONGODB_URI"),
        ({"mongodb_uri": "mongodb://h:p/"}, r"MongoDB isn't responding \(the address isn't valid\)"),
        ({"redis_url": "redis://x:y/0"}, r"Redis isn't responding \(the address isn't valid\)"),
    ],
)
def test_a_store_that_does_not_answer_is_named_with_its_setting(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], sentence: str
) -> None:
    monkeypatch.setattr(stores, "_PATIENCE", 0.2)
    with pytest.raises(StartupError, match=sentence):
        stores.require_stores(dataclasses.replace(settings, **changes))
    assert stores.require_stores(settings) == settings


def test_a_redis_that_refuses_to_write_is_a_sentence_with_its_reason(settings: Settings) -> None:
    with (
        refusing(settings.redis_url),
        pytest.raises(StartupError, match=r"Redis reports an error \(MISCONF .*Check the Redis log"),
    ):
        stores.require_stores(settings)


# -- libraries and locks


def test_libraries_that_are_there_are_no_problem() -> None:
    assert list(requirements.find_library_problems()) == []


def test_a_missing_and_an_old_library_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["no-such-thing>=1.0", "click>=999.1", "pytest>=999; extra == 'dev'"]
    monkeypatch.setattr(requirements.metadata, "requires", lambda name: lines)
    with pytest.raises(StartupError, match=r"no-such-thing is missing\. Run 'make run'"):
        requirements.require_libraries()
    assert [text.split(" is ")[0] for text in requirements.find_library_problems(native=())] == [
        "The Python library no-such-thing",
        "The Python library click",
    ]


def test_a_lock_is_held_by_one_and_ends_with_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with (
        child.hold_lock(path, "held by {}".format),
        pytest.raises(StartupError, match=f"held by {os.getpid()}"),
        child.hold_lock(path, "held by {}".format),
    ):
        pass
    with child.hold_lock(path, str):
        assert path.read_text() == f"{os.getpid()}\n"


def test_a_lock_on_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with (
        pytest.raises(StartupError, match=r"No space left on device"),
        child.hold_lock(tmp_path / "lock", str),
    ):
        pass


def test_every_setting_has_one_variable() -> None:
    assert config.build_env_name("fetch_allow") == "EVENTR_FETCH_ALLOW"
