"""Settings: one frozen table, read from the environment once at start and passed on from there.

Each row is a field of :class:`Settings`; its metadata holds the help text, how the value is checked,
whether it is secret, and whether it is common: one of the few that most servers set. The environment name is
``EVENTR_`` and the field name in capitals; for secret settings ``EVENTR_<NAME>_FILE`` names a file that holds
the value. Nothing else reads the environment.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import ipaddress
import os
import re
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_type_hints
from urllib.parse import urlsplit

from app.errors import SettingsError
from app.models.jobs import redis_address
from app.models.media import store_address
from app.models.operations import cells

PREFIX = "EVENTR_"
_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off", ""}
#: A host name or IP address, with an optional port. Names in home networks and containers may contain ``_``.
HOST = re.compile(
    r"([a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?", re.ASCII | re.IGNORECASE
)

Check = Callable[[Any], str | None]


def _between(low: float, high: float) -> Check:
    # Whole numbers in the form that people type, not as 2.68435e+08.
    bounds = " and ".join(f"{int(n) if n == int(n) else n}" for n in (low, high))
    return lambda v: None if low <= v <= high else f"must be between {bounds}"


def _zero_or_between(low: int, high: int) -> Check:
    return lambda v: None if v == 0 or low <= v <= high else f"must be 0, or between {low} and {high}"


def _one_of(*words: str) -> Check:
    return lambda v: None if v in words else f"must be one of {', '.join(words)}"


def _url(*schemes: str) -> Check:
    def check(value: str) -> str | None:
        if not value or value.startswith(tuple(f"{s}://" for s in schemes)):
            return None
        return f"must start with {' or '.join(s + '://' for s in schemes)}"

    return check


def _origin(value: str) -> str | None:
    if not value.isascii():
        return "must use the ASCII form of the host name (xn--…)"
    try:
        parts = urlsplit(value)
        # Rebuilt, it lacks characters that urlsplit ignores, and everything after host and port.
        plain = value.removesuffix("/") in (f"http://{parts.netloc}", f"https://{parts.netloc}")
        fits = plain and HOST.fullmatch(parts.netloc) and parts.port != 0
    except ValueError:
        fits = False
    return None if fits or not value else "must be an address like https://reader.example.org, without a path"


def _proxy(value: str) -> str | None:
    try:
        parts = urlsplit(value)
        fits = parts.scheme in ("http", "socks5h") and parts.hostname and parts.port != 0
    except ValueError:
        fits = False
    # The message doesn't quote the value, which may contain a password.
    return None if fits or not value else "must be an address like http://HOST:PORT or socks5h://HOST:PORT"


def _engine(value: str) -> str | None:
    fits = value == "local" or (value.split() and all(map(_is_origin, value.split())))
    return None if fits else "must be local or an address like http://10.0.0.5:9190; spaces separate several"


def _is_origin(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return bool(
            parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and not parts.path
        )
    except ValueError:
        return False


def _database(value: str) -> str | None:
    fits = value.isprintable() and 0 < len(value.encode()) < 64 and not set('/\\. "$') & set(value)
    return None if fits else "must be a name of at most 63 bytes without spaces, dots, slashes, quotes or $"


def _cells(value: str) -> str | None:
    try:
        cells.parse_cells(value)
    except ValueError:
        # The message quotes no address, because it may contain a password.
        return (
            "must contain different names with addresses, like c1=mongodb://HOST:PORT/?replicaSet=NAME,"
            " separated by spaces. Escape special characters of passwords"
        )
    return None


def _header(value: str) -> str | None:
    return None if value.isascii() and value.isprintable() else "must be a single line of ASCII text"


def _ports(value: tuple[int, ...]) -> str | None:
    return None if all(0 < port < 1 << 16 for port in value) else "must contain ports from 1 to 65535"


def _folder(value: Path | None) -> str | None:
    readable = value is None or (os.path.isdir(value) and os.access(value, os.R_OK | os.X_OK))
    return None if readable else "must be a readable folder"


def _contact(value: str) -> str | None:
    mail = value.startswith("mailto:") and "@" in value[8:-1]
    fits = (mail or (value.startswith("https://") and len(value) > 8)) and value.isascii()
    if not value or (fits and value.isprintable() and " " not in value and len(value) <= 254):
        return None
    return "must be an address like mailto:you@example.org or https://example.org/contact"


def _media_stores(value: tuple[str, ...]) -> str | None:
    try:
        store_address.parse_stores(value)
    except ValueError:
        # The message quotes no address, because it may contain a password.
        return (
            "must contain different addresses like disk:/srv/media, dav:https://USER:PASSWORD@HOST/FOLDER "
            "or s3:https://KEY:SECRET@HOST/BUCKET?region=REGION, separated by commas"
        )
    return None


def _accel(value: str) -> str | None:
    fits = value.startswith("/") and value.endswith("/") and value.isascii() and value.isprintable()
    return None if not value or fits else "must be a path like /media-files/"


def _rates(value: tuple[str, ...]) -> str | None:
    for row in value:
        name, _, number = row.partition("=")
        if not name.strip() or not number.strip().replace(".", "", 1).isdigit() or float(number) > 10_000:
            return f"must contain items like *.example.com=5, not {row!r}"
    return None


def _loopback(value: str) -> str | None:
    host, _, port = value.rpartition(":")
    try:
        # Names aren't allowed, because the system decides what "localhost" means.
        fits = ipaddress.ip_address(host.strip("[]")).is_loopback and 0 <= int(port) < 1 << 16
    except ValueError:
        fits = False
    return None if fits or not value else "must be a loopback address and a port, such as 127.0.0.1:7117"


def _listening(value: str) -> str | None:
    host, _, port = value.rpartition(":")
    try:
        ipaddress.ip_address(host.strip("[]"))
        fits = 0 <= int(port) < (1 << 16) - 8  # the other processes of a machine use the next ports
    except ValueError:
        fits = False
    return None if fits or not value else "must be an address and a port, such as 127.0.0.1:9180"


def _secret_key(value: str) -> str | None:
    return None if not value or len(value) >= 32 else "must have at least 32 random characters"


def _media_keys(value: str) -> str | None:
    fits = all(len(key) >= 32 for key in value.split())
    return None if fits else "must be keys of at least 32 random characters each"


def _row(
    default: Any, text: str, check: Check | None = None, *, secret: bool = False, common: bool = False
) -> Any:
    metadata = {"help": text, "check": check, "secret": secret, "common": common}
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of all processes; ``eventr settings`` shows the table with its values.

    Durations are in seconds and sizes in bytes, unless the name says otherwise.
    """

    # -- locations and logs
    home: Path = _row(
        Path("var"), "Folder for data, logs, sockets and keys when Eventr runs on one machine", common=True
    )
    disk_min_free: float = _row(
        5.0,
        (
            "Free space on the disks of EVENTR_HOME and MongoDB below which Eventr fetches and imports "
            "nothing, in percent; 0: no limit"
        ),
        _between(0, 50),
        common=True,
    )
    mongodb_uri: str = _row(
        "",
        "URI of the MongoDB replica set or cluster; empty: embedded MongoDB",
        _url("mongodb", "mongodb+srv"),
        secret=True,
        common=True,
    )
    mongodb_name: str = _row("eventr", "Name of the MongoDB database", _database)
    cells: str = _row(
        "",
        "More replica sets for people's data, as NAME=URI, separated by spaces; empty: the first one only",
        _cells,
        secret=True,
    )
    cell_patience: float = _row(
        2.0,
        "Seconds for which requests wait for a replica set of EVENTR_CELLS that has just stopped responding",
        _between(0, 30),
    )
    redis_url: str = _row(
        "",
        (
            "URL of Redis 6.2 or newer, or of Sentinels: redis+sentinel://HOST:PORT,HOST:PORT/SET; empty: "
            "embedded Redis"
        ),
        redis_address.find_address_problem,
        secret=True,
        common=True,
    )
    redis_replicas: int = _row(
        0,
        "Replicas of Redis that must have a job before it counts as queued or claimed; 0: none",
        _between(0, 5),
    )
    cache: bool = _row(
        False,
        (
            "Keep feeds' cards, people's short lists and public pages in the memory of the web processes "
            "while Redis says that they haven't changed; the same on all machines"
        ),
    )
    cache_url: str = _row(
        "",
        "URL of the Redis that says what has changed, in the forms of EVENTR_REDIS_URL; empty: that one",
        redis_address.find_address_problem,
        secret=True,
    )
    embedded_cache: int = _row(
        0,
        (
            "Cache size of the embedded MongoDB, in bytes; 0: a quarter of the memory of the machine or "
            "container, at least 256 MiB and at most 1 GiB"
        ),
        _zero_or_between(1 << 28, 1 << 40),
        common=True,
    )
    log_level: str = _row(
        "info", "Lowest level to log", _one_of("debug", "info", "warning", "error"), common=True
    )
    log_format: str = _row("text", "Format of log lines", _one_of("text", "json"), common=True)

    # -- web
    base_url: str = _row("", "Public address of this server; empty: http://HOST:PORT", _origin, common=True)
    host: str = _row("127.0.0.1", "Address that the web server listens on", common=True)
    port: int = _row(
        8080, "Port that the web server listens on; 0: any free port", _between(0, 65535), common=True
    )
    web_workers: int = _row(2, "Web processes", _between(1, 256), common=True)
    web_threads: int = _row(8, "Threads per web process", _between(1, 256))
    web_unread_seconds: float = _row(
        15.0,
        "Seconds in which a client must read 16 KiB more of its response before it is disconnected",
        _between(0.1, 600),
    )
    web_unread_per_address: int = _row(
        20,
        (
            "Responses per IP address (IPv6: per /64 network) and web process that wait to be read; the "
            "oldest is dropped for a new one. Not used behind trusted proxies"
        ),
        _between(1, 500),
    )
    web_unread_bytes: int = _row(
        8 << 20,
        "Largest part of one response that waits to be read without a thread, in bytes",
        _between(1 << 16, 1 << 30),
    )
    web_unread_total: int = _row(
        64 << 20,
        "Total of the responses per web process that wait to be read, in bytes; the oldest are dropped",
        _between(1 << 20, 1 << 34),
    )
    upload_spools: int = _row(
        64,
        "Uploads that one web process receives at the same time; others wait for their turn",
        _between(1, 500),
    )
    upload_spools_per_address: int = _row(
        8,
        (
            "Uploads that one web process receives at the same time from one IP address (IPv6: /64 network); "
            "others wait for their turn"
        ),
        _between(1, 500),
    )
    upload_idle_seconds: float = _row(
        20.0,
        "Seconds without a byte, or without a turn, after which an upload is disconnected",
        _between(0.1, 600),
    )
    upload_rate: float = _row(
        1024, "Slowest upload, in bytes per second over EVENTR_UPLOAD_RATE_SECONDS", _between(0, 1 << 30)
    )
    upload_rate_seconds: float = _row(
        60.0, "Time over which EVENTR_UPLOAD_RATE is measured", _between(1, 3600)
    )
    secret_key: str = _row(
        "",
        ("Key for signatures; empty: created at the first start and kept in EVENTR_HOME/secret_key"),
        _secret_key,
        secret=True,
        common=True,
    )
    trusted_proxies: int = _row(
        0,
        "Number of reverse proxies in front of Eventr whose X-Forwarded-* headers are trusted",
        _between(0, 8),
        common=True,
    )
    signup: str = _row(
        "invite",
        "Who may sign up after the first user: nobody, people with an invite link, or everyone",
        _one_of("closed", "invite", "open"),
        common=True,
    )
    contact: str = _row(
        "",
        "Contact address of this server's admin on the page /about: mailto: or https:",
        _contact,
    )
    legal_url: str = _row("", "Address of a legal notice, linked on /about", _url("https", "http"))
    privacy_url: str = _row("", "Address of a privacy policy, linked on /about", _url("https", "http"))
    session_idle: int = _row(
        14 * 86400, "Seconds without activity after which a session ends", _between(60, 1e9)
    )
    session_max: int = _row(
        90 * 86400, "Seconds after which a session ends even if active", _between(60, 1e9)
    )
    # The whole body of such a size arrives before a thread gets the request; for a longer one, a thread
    # would have to wait. There are only forms: no route accepts a file.
    max_request_bytes: int = _row(64 << 10, "Largest request body, in bytes", _between(1024, 1 << 30))
    discovery_wait: float = _row(
        5.0, "Seconds that a request waits for feed discovery before it returns 'wait'", _between(0, 30)
    )
    discovery_requests: int = _row(
        100, "Most requests of one feed discovery, not counting redirects", _between(10, 1000)
    )
    discoveries_per_hour: int = _row(
        120, "Feed discoveries that one user may start per hour", _between(1, 1e6)
    )
    feed_searches_per_minute: int = _row(
        300,
        "Searches for feeds by words that one user may make per minute; each typed letter may be one",
        _between(1, 1e6),
    )
    crawls_running: int = _row(
        20,
        (
            "Sites that are crawled at the same time, because someone looked for their feed in vain; others "
            "wait. At most 30 requests per site, 5 seconds apart; 0: no site is crawled"
        ),
        _between(0, 1000),
    )
    findable_readers: int = _row(
        2,
        (
            "Subscribers that a feed needs before others find it by words, not counting those who keep it "
            "private; 0: only feeds of starter packs are found"
        ),
        _zero_or_between(2, 1_000_000),
    )
    full_text_wait: float = _row(
        5.0, "Seconds that a request waits for an entry's full text before it returns 'wait'", _between(0, 30)
    )
    full_text_patience: float = _row(
        10.0, "Seconds that a fetch of a full text waits for the rate limit of its site", _between(0, 60)
    )
    full_texts_per_hour: int = _row(300, "Full texts that one user may request per hour", _between(1, 1e6))
    text_rules_max: int = _row(500, "Rules of the admins for full texts of sites", _between(0, 10_000))
    saved_pages_max: int = _row(50_000, "Pages that one user may save", _between(100, 1e6))
    saves_per_hour: int = _row(
        300, "Pages that one user may save per hour, not counting imports", _between(1, 1e6)
    )
    page_size: int = _row(50, "Entries per page of a stream", _between(1, 1000))
    tree_cache: int = _row(
        20_000,
        "Feeds in the lists of feeds that a web process keeps rendered, of all users together",
        _between(0, 10_000_000),
    )
    whole_page_size: int = _row(10, "Entries per page when full texts are shown", _between(1, 100))
    whole_text_max: int = _row(
        100_000, "Longest entry HTML shown in a list, in characters", _between(1000, 1 << 20)
    )
    argon2_memory_kib: int = _row(65536, "Memory for Argon2id, in KiB", _between(19456, 1 << 22))
    argon2_time: int = _row(3, "Number of Argon2id passes", _between(1, 64))
    reset_ttl: int = _row(1800, "Seconds that a password reset link stays valid", _between(60, 1e6))
    proof_ttl: int = _row(
        600,
        ("Seconds after which an admin must enter their password again to change someone's role or access"),
        _between(1, 86400),
    )
    login_failures: int = _row(
        5, "Failed logins per account and IP address before further attempts must wait", _between(1, 1000)
    )
    login_per_network: int = _row(
        30,
        "Failed logins, and accounts, per network (/24 or /64) within EVENTR_LOGIN_WINDOW",
        _between(1, 1e6),
    )
    login_names: int = _row(
        300,
        "Names per network within EVENTR_LOGIN_WINDOW that sign-up checks while people type",
        _between(1, 1e6),
    )
    login_window: int = _row(
        900, "Period over which failed logins are counted, in seconds", _between(1, 86400)
    )

    # -- events for browsers
    events_host: str = _row(
        "127.0.0.1", "Address on which the controller serves /events, if EVENTR_EVENTS_PORT is set"
    )
    events_port: int = _row(
        0,
        (
            "Port on which the controller serves /events behind a proxy; 0: the web server "
            "hands over connections"
        ),
        _between(0, 65535),
    )
    events_pass_ttl: int = _row(60, "Seconds that a pass to /events stays valid", _between(5, 3600))
    events_streams: int = _row(5000, "Open event streams per controller", _between(1, 100_000))
    events_per_user: int = _row(20, "Open event streams per user", _between(1, 10_000))
    events_per_address: int = _row(
        200, "Open event streams per IP address (IPv6: per /64 network)", _between(1, 100_000)
    )
    events_beat: float = _row(
        25.0, "Longest time without a message on an event stream, in seconds", _between(1, 300)
    )
    events_stall: float = _row(
        20.0, "Seconds after which a browser that reads nothing is disconnected", _between(1, 600)
    )
    events_lifetime: float = _row(
        900.0, "Seconds after which an event stream ends and the browser reconnects", _between(5, 86400)
    )

    # -- fetching
    user_agent: str = _row(
        "", "User-Agent for fetching feeds; empty: Eventr with its public address", _header, common=True
    )
    fetch_allow: tuple[str, ...] = _row(
        (),
        (
            "Private targets from which Eventr may fetch feeds: CIDR or host:port, comma-separated. A "
            "host:port also allows that port. A CIDR allows only the ports in "
            "EVENTR_FETCH_PORTS"
        ),
        common=True,
    )
    hub_allow: tuple[str, ...] = _row(
        (), "Private callbacks to which Eventr's hub may push, in the form of EVENTR_FETCH_ALLOW"
    )
    push_allow: tuple[str, ...] = _row(
        (), "Private push services for notifications, in the form of EVENTR_FETCH_ALLOW"
    )
    send_allow: tuple[str, ...] = _row(
        (), "Private services that users may send entries to, in the form of EVENTR_FETCH_ALLOW"
    )
    fetch_ports: tuple[int, ...] = _row(
        (80, 443, 8080, 8443), "Ports that Eventr may fetch, on public and private hosts", _ports
    )
    fetch_proxy: str = _row(
        "", "Proxy for all fetches; the proxy must then filter addresses", _proxy, secret=True, common=True
    )
    fetch_connections: int = _row(200, "Concurrent connections per worker", _between(1, 10000))
    fetch_per_host: int = _row(2, "Concurrent connections per host", _between(1, 64))
    fetch_pictures_per_host: int = _row(
        6, "Concurrent connections per host for pictures and icons", _between(1, 64)
    )
    fetch_picture_rate: float = _row(
        10.0,
        "Requests per second for pictures and icons to one host, across all workers and servers",
        _between(0.001, 10000),
    )
    fetch_picture_burst: int = _row(
        60, "Requests for pictures and icons to one host at once after a pause", _between(1, 10000)
    )
    fetch_host_rate: float = _row(
        2.0, "Requests per second to one host, across all workers and servers", _between(0.001, 10000)
    )
    fetch_host_burst: int = _row(
        20,
        ("Requests to one host at once after a pause; fetches requested by users have twice this limit"),
        _between(1, 10000),
    )
    fetch_host_rest: float = _row(
        900.0,
        (
            "Longest pause for a host when three of its feeds ask for it, in seconds; doubles "
            "with each further feed that asks"
        ),
        _between(1, 86400),
    )
    fetch_host_rates: tuple[str, ...] = _row(
        (
            "*.wordpress.com=20",
            "*.blogspot.com=20",
            "*.youtube.com=20",
            "*.substack.com=10",
            "*.tumblr.com=10",
            "*.medium.com=5",
        ),
        (
            "Request rates for individual hosts: name=rate, or *.name=rate for all of its "
            "subdomains together; 0: no limit"
        ),
        _rates,
    )
    fetch_connect_timeout: float = _row(
        5.0, "Timeout for each of DNS, connect and TLS, in seconds", _between(0.1, 60)
    )
    fetch_first_byte_timeout: float = _row(
        20.0, "Timeout for the first byte of a response, in seconds", _between(0.1, 60)
    )
    fetch_idle_timeout: float = _row(
        10.0, "Longest gap between two bytes of a response, in seconds", _between(0.1, 60)
    )
    fetch_total_timeout: float = _row(
        30.0, "Timeout for a whole fetch including redirects, in seconds", _between(0.1, 300)
    )
    fetch_slow_first_byte_timeout: float = _row(
        45.0,
        "The same as EVENTR_FETCH_FIRST_BYTE_TIMEOUT, for feeds that answered slowly before",
        _between(0.1, 300),
    )
    fetch_slow_total_timeout: float = _row(
        60.0,
        "The same as EVENTR_FETCH_TOTAL_TIMEOUT, for feeds that answered slowly before",
        _between(0.1, 600),
    )
    fetch_slow_percent: int = _row(
        10,
        "Most of a worker's connections that wait for feeds that answered slowly before, in percent",
        _between(1, 100),
    )
    fetch_redirects: int = _row(5, "Redirects followed per fetch", _between(0, 20))
    fetch_full_days: float = _row(
        3.0,
        (
            "Days after which a feed is fetched without validators, in case its server answers 304 "
            "although the feed changed"
        ),
        _between(0.01, 365),
    )
    fetch_max_feed: int = _row(
        10 << 20, "Largest feed after decompression, in bytes", _between(1024, 1 << 30)
    )
    fetch_max_page: int = _row(
        5 << 20, "Largest web page after decompression, in bytes", _between(1024, 1 << 30)
    )
    fetch_max_picture: int = _row(
        10 << 20, "Largest picture of an entry that Eventr fetches, in bytes", _between(1024, 1 << 30)
    )
    fetch_max_icon: int = _row(
        512 << 10, "Largest icon of a feed that Eventr fetches, in bytes", _between(1024, 1 << 26)
    )
    fetch_max_header: int = _row(
        64 << 10, "Total size of a response's headers, in bytes", _between(1024, 1 << 20)
    )
    fetch_max_ratio: int = _row(
        100, "Highest compression ratio accepted after the first 1 MiB", _between(2, 10000)
    )

    fetch_bytes_per_user: int = _row(
        10 << 30,
        (
            "Bytes fetched per day for one user: their discoveries, and their share of feeds with at most "
            "ten readers; 0: no limit"
        ),
        _zero_or_between(1 << 20, 1 << 50),
    )
    fetch_bytes_per_day: int = _row(
        200 << 30, "Bytes fetched per day in all; 0: no limit", _zero_or_between(1 << 20, 1 << 50)
    )

    # -- pictures of other sites
    images: str = _row(
        "proxy",
        (
            "How pages show pictures of other sites: proxy: through this server, unless a user chooses "
            "otherwise; direct: from the sites, which then see who reads"
        ),
        _one_of("proxy", "direct"),
        common=True,
    )
    media_keys: str = _row(
        "",
        (
            "Keys for the addresses of pictures, the newest first, separated by spaces; empty: derived from "
            "EVENTR_SECRET_KEY. Addresses made with former keys stay valid"
        ),
        _media_keys,
        secret=True,
    )
    pictures_per_hour: int = _row(
        2000, "New pictures that Eventr fetches for one user per hour", _between(10, 1_000_000)
    )
    pictures_per_hour_programs: int = _row(
        20_000,
        "New pictures per hour that Eventr fetches for all reader apps together; one address gets as many as "
        "one user",
        _between(10, 10_000_000),
    )
    media_prefetch: bool = _row(
        True,
        "Fetch pictures ahead: those of the next three entries of a list, and small ones of new "
        "entries if someone reads their feed as cards",
    )
    icons_per_hour: int = _row(
        30, "Times per hour that one user may have icons of feeds looked for again", _between(1, 10_000)
    )
    picture_patience: float = _row(
        5.0, "Seconds that a reader app's request waits for a new picture", _between(0, 30)
    )

    # -- reading a feed
    feed_max_items: int = _row(2000, "Items read from one response", _between(1, 100000))
    entry_max_html: int = _row(1 << 20, "Longest HTML of an entry, in characters", _between(1024, 1 << 24))
    title_max: int = _row(1024, "Longest title, in characters", _between(16, 1 << 16))
    xml_max_depth: int = _row(128, "Deepest nesting of a feed's XML", _between(8, 256))
    xml_max_attributes: int = _row(64, "Attributes per XML element", _between(8, 10000))
    fallback_max: int = _row(
        2 << 20, "Largest body passed to the slow fallback parser, in bytes", _between(1024, 1 << 26)
    )

    opml_max_bytes: int = _row(5 << 20, "Largest OPML file, in bytes", _between(1024, 1 << 30))
    opml_max_outlines: int = _row(20_000, "Outlines per OPML file", _between(1, 1_000_000))
    opml_max_depth: int = _row(32, "Deepest nesting of outlines in an OPML file", _between(1, 200))
    archive_members_max: int = _row(10_000, "Files in an archive to import", _between(1, 1_000_000))
    archive_bytes_max: int = _row(
        2 << 30, "Unpacked size of an archive to import, in bytes", _between(1 << 20, 1 << 40)
    )
    archive_ratio_max: int = _row(
        100, "Unpacked size of an archive to import, as a multiple of its size", _between(1, 10_000)
    )
    archive_entries_max: int = _row(
        100_000, "Starred, tagged and read entries that are imported from an archive", _between(1, 1e7)
    )
    import_pull_page: int = _row(
        100, "Entries that an import from another server asks for at once", _between(1, 1000)
    )
    import_pull_bytes: int = _row(
        32 << 20, "Largest answer of another server to an import, in bytes", _between(1 << 16, 1 << 30)
    )
    import_pull_tries: int = _row(
        8, "Failed tries in a row after which an import from another server ends", _between(1, 100)
    )
    imports_at_once: int = _row(10, "Imports that run at once; further ones wait", _between(1, 1000))
    addresses_per_hour: int = _row(
        60, "Feed addresses that one user may change per hour", _between(1, 10_000)
    )
    pulls_per_minute: int = _row(
        20,
        (
            "Feeds that one user may have fetched immediately per minute; the updater fetches "
            "further new feeds"
        ),
        _between(1, 10_000),
    )
    imports_per_hour: int = _row(60, "OPML files that one user may upload per hour", _between(1, 10_000))
    import_window: int = _row(200, "Feeds that one import fetches at once", _between(1, 10_000))
    import_patience: float = _row(
        900.0,
        "Seconds that an import waits for a feed whose host currently can't be fetched",
        _between(1, 86400),
    )
    import_keep_days: int = _row(30, "Days to keep finished imports", _between(1, 3650))
    packs_dir: Path | None = _row(
        None, "Folder with starter packs as OPML; empty: the built-in packs", _folder
    )

    # -- schedule
    poll_min: int = _row(
        120, "Shortest time between polls of a feed, in seconds", _between(1, 86400), common=True
    )
    poll_max: int = _row(
        3600, "Longest time between polls of a healthy feed, in seconds", _between(1, 86400), common=True
    )
    poll_push: int = _row(
        6 * 3600,
        "Time between polls of a feed while its hub's pushes arrive reliably, in seconds",
        _between(60, 86400),
    )
    poll_unread: int = _row(
        86400, "Time between polls of a feed that nobody has read for 30 days, in seconds", _between(60, 1e6)
    )
    error_backoff_min: int = _row(
        300, "First wait after a feed error, in seconds; doubles with each error", _between(1, 86400)
    )
    error_backoff_max: int = _row(86400, "Longest wait after feed errors, in seconds", _between(60, 1e6))
    websub: str = _row(
        "auto",
        "Subscribe to feeds' WebSub hubs; auto: if hubs can reach EVENTR_BASE_URL",
        _one_of("auto", "on", "off"),
        common=True,
    )
    websub_interval: int = _row(
        30, "Shortest time between two fetches of a feed triggered by pushes, in seconds", _between(1, 3600)
    )
    websub_max_bytes: int = _row(
        4 << 20, "Largest push accepted from a hub, in bytes", _between(1024, 1 << 26)
    )
    retention_entries: int = _row(5000, "Entries kept per feed", _between(100, 1e7), common=True)
    retention_bytes: int = _row(
        100 << 20, "Size of the entries kept per feed, as stored, in bytes", _between(1 << 20, 1 << 40)
    )
    retention_total: int = _row(
        0,
        (
            "Entries kept on the whole server; beyond that, the oldest entries of feeds that nobody has "
            "opened for a week or more are deleted; 0: no limit"
        ),
        _between(0, 10**11),
    )
    orphan_days: int = _row(
        30,
        (
            "Days after which a feed that nobody subscribes to is deleted, "
            "unless an entry of it is starred, tagged, liked or shared; 0: never"
        ),
        _between(0, 3650),
    )

    # -- reading
    unread_days: int = _row(
        30, "Entries younger than this many days start as unread in a new subscription", _between(0, 3650)
    )
    unread_min: int = _row(10, "Fewest unread entries in a new subscription", _between(0, 1000))
    unread_max: int = _row(100, "Most unread entries in a new subscription", _between(1, 10000))
    subscriptions_max: int = _row(10000, "Subscriptions per user", _between(1, 1e6))
    subscriptions_per_hour: int = _row(
        1000, "Subscriptions that one user may add per hour, besides imports", _between(1, 1e6)
    )
    tags_per_entry: int = _row(30, "Tags per entry", _between(1, 1000))
    tags_per_user: int = _row(1000, "Tags per user", _between(1, 100_000))
    tag_length: int = _row(64, "Longest tag, in characters", _between(1, 256))
    followed_lists_max: int = _row(20, "OPML files on the web that a user can follow", _between(0, 1000))
    searches_max: int = _row(100, "Saved searches per user", _between(0, 10_000))
    search: str = _row(
        "local",
        (
            "Where searches are answered: local, or the address of the server with the index; "
            "further addresses, separated by spaces, are used if it doesn't answer"
        ),
        _engine,
    )
    search_host: str = _row("127.0.0.1", "Address on which eventr search serve listens")
    search_port: int = _row(
        9190, "Port on which eventr search serve listens; 0: any free port", _between(0, 65_535)
    )
    search_threads: int = _row(
        16, "Searches that eventr search serve answers at once; others wait", _between(1, 1000)
    )
    search_seconds: float = _row(
        2.0,
        "Seconds after which eventr search serve closes a connection, waiting included",
        _between(0.1, 60),
    )
    search_patience: float = _row(
        0.5,
        "Seconds after which a search shows what it has found so far and offers to continue",
        _between(0.01, 10),
    )
    search_text: int = _row(
        32 << 10, "Characters of an entry's HTML that are indexed for search", _between(256, 1 << 22)
    )
    search_words: int = _row(
        1000, "Different words per entry that are indexed for search", _between(16, 10_000)
    )
    stream_views_max: int = _row(2000, "Streams per user whose view is remembered", _between(1, 1e6))
    targets_max: int = _row(20, "Services per user that entries are sent to", _between(1, 1000))
    sends_per_hour: int = _row(300, "Entries that one user may send by hand per hour", _between(1, 1e6))
    sends_per_day: int = _row(1000, "Entries of one user that are sent per day", _between(1, 100_000))
    send_timeout: float = _row(10.0, "Seconds that a service has for its response", _between(0.1, 60))
    send_tries: int = _row(10, "Attempts to send an entry", _between(1, 100))
    send_backoff_min: int = _row(
        60, "First wait after a failed attempt to send, in seconds; doubles each time", _between(1, 86400)
    )
    send_backoff_max: int = _row(
        21_600, "Longest wait after failed attempts to send, in seconds", _between(1, 86400)
    )
    rules_max: int = _row(200, "Rules per user", _between(1, 1000))
    rule_patterns_max: int = _row(50, "Regular expressions in the rules of a user", _between(0, 1000))
    rule_preview_entries: int = _row(
        1000, "Newest entries that the preview of a rule considers", _between(10, 5000)
    )
    rule_full_texts: int = _row(
        100, "Full texts that the rules of one user may request within an hour", _between(1, 1000)
    )
    rule_preview_rows: int = _row(20, "Matching entries that the preview of a rule shows", _between(1, 200))
    playback_max: int = _row(500, "Positions in recordings that are kept per user", _between(1, 100_000))
    statistics_days: int = _row(400, "Days of reading statistics that are kept per user", _between(31, 3650))
    playback_days: int = _row(365, "Days after which a position is forgotten", _between(1, 3650))
    recent_reads_max: int = _row(300, "Entries per user in the list “Recently read”", _between(1, 5000))
    mark_range_max: int = _row(
        5000, "Most entries that “mark above” and “mark below” cover", _between(1, 100_000)
    )
    snapshot_ttl: int = _row(86400, "Seconds to keep an unread-on-top snapshot", _between(60, 1e6))
    history_rows: int = _row(100, "Rows per page of the undo history", _between(1, 1000))
    undo_ttl: int = _row(86400, "Seconds during which a mass action can be undone", _between(60, 1e6))

    # -- sharing
    shares_audience: str = _row(
        "public",
        "Default audience of a user's shares",
        _one_of("public", "followers", "private"),
        common=True,
    )
    name_days: int = _row(
        90,
        "Days that a former user name redirects to its owner's page and stays reserved",
        _between(0, 3650),
    )
    names_kept: int = _row(5, "Former names reserved per user", _between(0, 100))
    note_length: int = _row(5000, "Longest note or post, in characters", _between(1, 1e6))
    chain_depth: int = _row(100, "Longest chain of shares", _between(1, 1000))
    chain_rows: int = _row(100, "Shares per page of a chain", _between(1, 1000))
    chain_count_max: int = _row(10_000, "Highest number of shares counted per entry", _between(1, 1e6))
    trend_half_life: int = _row(
        86400, "Seconds after which a share counts half in “Most shared”", _between(600, 1e7)
    )
    trend_days: int = _row(
        14, "Days without a share after which an entry leaves “Most shared”", _between(1, 365)
    )
    trend_rows: int = _row(50, "Entries in “Most shared”", _between(1, 500))
    landing_rows: int = _row(
        5, "Entries of “Most shared” on the landing page, public shares only; 0: none", _between(0, 50)
    )
    similar_people: int = _row(
        1000, "Discoverable people compared to find readers with similar feeds", _between(1, 1e5)
    )
    shared_rows: int = _row(20, "Shares per page of a shared stream and in its feeds", _between(1, 200))
    stream_feed_rows: int = _row(
        50, "Entries in the feed of a person's list at a secret address", _between(1, 200)
    )
    reshares_counted: int = _row(50, "Highest number of re-shares counted per share", _between(1, 1000))
    shares_per_hour: int = _row(120, "Shares and posts per user and hour", _between(1, 1e6))
    follows_per_hour: int = _row(200, "People that one user may follow per hour", _between(1, 1e6))
    tokens_max: int = _row(50, "App passwords, access tokens and feed addresses per user", _between(1, 1000))
    changes_days: int = _row(
        30, "Days that reader apps can sync read, star and tag changes", _between(1, 400)
    )
    changes_max: int = _row(
        10000,
        "Entries per mass action or tag change that are reported to reader apps",
        _between(100, 1e6),
    )
    sync_gather_max: int = _row(
        20000,
        "Entries reported to a reader app in one response about changes or marks",
        _between(1000, 1e6),
    )
    sync_hold_back: float = _row(
        5.0,
        "Seconds for which reader apps don't get a new entry; 0: none",
        _between(0, 60),
    )
    api_per_minute: int = _row(6000, "API requests per user and minute", _between(1, 1e6))
    api_max_bytes: int = _row(1 << 20, "Largest API request body, in bytes", _between(1 << 16, 1 << 24))
    idempotency_ttl: int = _row(
        86400, "Seconds to keep the response to a request with an Idempotency-Key", _between(60, 1e7)
    )
    idempotency_lease: int = _row(
        120,
        "Seconds after which an unanswered request with an Idempotency-Key may run again",
        _between(1, 3600),
    )
    idempotency_renewal: float = _row(
        5.0,
        (
            "Seconds between two signs of life of a request with an Idempotency-Key; without one for three "
            "times as long, it may run again"
        ),
        _between(0.05, 60),
    )
    reports_per_hour: int = _row(20, "Abuse reports per user and hour", _between(1, 1e6))

    # -- the hub for public streams
    hub: str = _row(
        "auto",
        "Run a WebSub hub for public streams; auto: if others can reach EVENTR_BASE_URL",
        _one_of("auto", "on", "off"),
        common=True,
    )
    hub_lease: int = _row(10 * 86400, "Default lease of a hub subscription, in seconds", _between(60, 1e9))
    hub_lease_min: int = _row(3600, "Shortest lease of a hub subscription, in seconds", _between(1, 1e9))
    hub_lease_max: int = _row(
        30 * 86400, "Longest lease of a hub subscription, in seconds", _between(60, 1e9)
    )
    hub_stream_max: int = _row(20_000, "Hub subscriptions per shared stream", _between(1, 100_000))
    hub_host_max: int = _row(10_000, "Hub subscriptions per callback host", _between(1, 1e7))
    hub_per_hour: int = _row(
        1000, "Hub requests per IP address (IPv6: per /64 network) and hour", _between(1, 1e6)
    )
    hub_form_max: int = _row(16 << 10, "Largest hub request, in bytes", _between(1024, 1 << 20))
    hub_callback_length: int = _row(2048, "Longest callback address, in characters", _between(64, 8192))
    hub_secret_length: int = _row(199, "Longest secret of a hub subscription, in bytes", _between(1, 1024))
    hub_push_max: int = _row(4 << 20, "Largest feed that the hub pushes, in bytes", _between(1024, 1 << 26))
    hub_batch: int = _row(200, "Pushes that the hub sends at once", _between(1, 10_000))
    hub_timeout: float = _row(
        10.0,
        "Timeout for pushing to a callback, in seconds; at most EVENTR_FETCH_TOTAL_TIMEOUT",
        _between(0.1, 60),
    )
    hub_asks: int = _row(3, "Attempts to verify a subscription with its callback", _between(1, 100))
    hub_failures: int = _row(12, "Failed pushes in a row after which a callback is dropped", _between(1, 100))
    hub_backoff_min: int = _row(
        60, "First wait after a failed push, in seconds; doubles with each failure", _between(1, 86400)
    )
    hub_backoff_max: int = _row(6 * 3600, "Longest wait after failed pushes, in seconds", _between(1, 1e6))

    # -- comments and likes
    likes_per_hour: int = _row(600, "Likes per user and hour", _between(1, 1e6))
    comments_per_hour: int = _row(60, "Comments per user and hour", _between(1, 1e6))
    comment_length: int = _row(2000, "Longest comment, in characters", _between(1, 50_000))
    comment_depth: int = _row(
        6, "Levels of indented replies; deeper replies are shown at the last level", _between(1, 100)
    )
    comment_rows: int = _row(50, "Comments per page", _between(1, 1000))
    talk_count_max: int = _row(
        1000, "Highest number of likes, and of comments, counted per share", _between(1, 100_000)
    )
    notifications_days: int = _row(60, "Days to keep notifications", _between(1, 3650))
    notifications_max: int = _row(
        500, "Notifications kept per user; older ones are deleted", _between(1, 100_000)
    )
    notification_rows: int = _row(30, "Notifications per page", _between(1, 1000))
    feed_broken_days: int = _row(
        7, "Days of errors after which subscribers are notified about a feed", _between(1, 3650)
    )

    # -- notifications on devices (web push)
    push: bool = _row(
        True, "Allow push notifications on devices; browsers require HTTPS or loopback", common=True
    )
    push_contact: str = _row(
        "",
        "Contact address for push services: mailto: or https:; empty: EVENTR_BASE_URL",
        _contact,
    )
    push_devices: int = _row(20, "Push devices per user", _between(1, 1000))
    push_per_hour: int = _row(
        60, "Device registrations and test notifications per user and hour", _between(1, 1e6)
    )
    push_endpoint_length: int = _row(1024, "Longest push service address, in characters", _between(64, 2048))
    # RFC 8030 §7.2: each service accepts 4096 bytes; encryption adds 103.
    push_payload: int = _row(
        2048, "Longest message to a device before encryption, in bytes", _between(256, 3993)
    )
    push_ttl: int = _row(
        86400,
        "Seconds that a push service keeps a message for a device that is offline",
        _between(0, 2419200),
    )
    push_pause: int = _row(
        300, "Shortest time before an updated notification is pushed again, in seconds", _between(0, 86400)
    )
    push_timeout: float = _row(
        5.0,
        "Timeout for sending to a push service, in seconds; at most EVENTR_FETCH_TOTAL_TIMEOUT",
        _between(0.1, 60),
    )
    push_tries: int = _row(5, "Attempts to send a message", _between(1, 100))
    push_backoff_min: int = _row(
        30, "First wait after a failed attempt, in seconds; doubles with each failure", _between(1, 86400)
    )
    push_backoff_max: int = _row(3600, "Longest wait after failed attempts, in seconds", _between(1, 86400))
    push_failures: int = _row(
        5, "Rejected messages in a row after which a device is dropped", _between(1, 1000)
    )

    # -- uploads
    uploads: bool = _row(True, "Allow uploads of files")
    upload_max: int = _row(2 << 30, "Largest file that can be uploaded, in bytes", _between(1024, 1 << 44))
    upload_picture_max: int = _row(
        20 << 20, "Largest picture for a post or comment, in bytes", _between(1024, 1 << 30)
    )
    upload_import_max: int = _row(
        500 << 20, "Largest archive that can be imported, in bytes", _between(1024, 1 << 40)
    )
    upload_part_max: int = _row(
        16 << 20,
        "Bytes of an upload that are stored at once; a longer request is stored in several parts",
        _between(64 << 10, 1 << 30),
    )
    upload_form_max: int = _row(
        8 << 20,
        "Largest file that a form without scripts can upload, in bytes",
        _between(1024, 1 << 30),
    )
    upload_expires: int = _row(
        86400, "Seconds after the last part when an unfinished upload is deleted", _between(60, 30 * 86400)
    )
    uploads_open: int = _row(20, "Unfinished uploads per user", _between(1, 1000))
    uploads_per_hour: int = _row(200, "Uploads that one user may begin per hour", _between(1, 1e6))
    uploads_ietf: bool = _row(
        False, "Also accept resumable uploads in the form of the IETF draft, which may still change"
    )
    instant: str = _row(
        "own",
        (
            "Files that needn't be sent again because the server has them: none, the user's own, or (proof) "
            "also those that several users have, for programs that prove that they have the file"
        ),
        _one_of("off", "own", "proof"),
    )
    instant_min: int = _row(
        1 << 20, "Smallest file that needn't be sent again, in bytes", _between(1, 1 << 30)
    )
    instant_per_hour: int = _row(
        30, "Files per user and hour that are added without sending them", _between(1, 1e6)
    )
    quota: int = _row(
        1 << 30, "Storage for the files of one user, in bytes; 0: no limit", _between(0, 1 << 50)
    )

    # -- data exports
    export_max: int = _row(
        1 << 30,
        "Largest data export before compression, in bytes",
        _between(1024, (1 << 31) - 1),
    )
    export_ttl: int = _row(86400, "Seconds that a data export can be downloaded", _between(60, 30 * 86400))
    exports_per_day: int = _row(5, "Data exports per user and day", _between(1, 1000))

    # -- pictures and files
    media_window: int = _row(
        14,
        "Days after which pictures that nobody has seen, and files that nothing uses, are deleted",
        _between(1, 3650),
    )
    media_cache_bytes: int = _row(
        5 << 30,
        "Space for pictures from other sites, in bytes; those seen longest ago are deleted first",
        _between(1 << 20, 1 << 50),
        common=True,
    )
    media_idle: int = _row(
        3600,
        "Seconds that unused content stays stored, so that the same upload or picture finds it again",
        _between(60, 30 * 86400),
    )
    media_strays: str = _row(
        "report",
        "What happens to old files in media stores that the database doesn't know: report or delete",
        _one_of("report", "delete"),
    )
    media_stray_age: int = _row(
        24, "Hours after which such a file counts as old; an upload must not take longer", _between(1, 8760)
    )
    media_stores: tuple[str, ...] = _row(
        (),
        (
            "Where pictures and files are stored, in the order of reading: disk:, dav: and s3: addresses, "
            "comma-separated; empty: EVENTR_HOME/media/files"
        ),
        _media_stores,
        secret=True,
        common=True,
    )
    media_copies: int = _row(
        1,
        "Stores that must have a picture or file before it counts as stored; the others get it later",
        _between(1, 16),
    )
    media_store_timeout: float = _row(
        2.0,
        (
            "Timeout for connecting to a media store on another server and for reading 1 MiB from it, in "
            "seconds; writing may stall five times as long"
        ),
        _between(0.1, 60),
    )
    media_shelf_bytes: int = _row(
        1 << 30,
        "Space in EVENTR_HOME for copies of what was read from other servers' media stores, in bytes",
        _between(1 << 20, 1 << 44),
    )
    media_accel: str = _row(
        "",
        (
            "Path of an nginx location that serves the first disk store's files for X-Accel-Redirect, "
            "such as /media-files/; empty: Eventr sends the files"
        ),
        _accel,
    )
    attachments_max: int = _row(10, "Most pictures and files of one post or comment", _between(0, 100))
    attachment_alt_length: int = _row(
        1500, "Longest description of an attached picture, in characters", _between(1, 10_000)
    )
    attachment_token_ttl: int = _row(
        86400,
        "Seconds for which reader apps can load attached pictures that only followers may see",
        _between(60, 30 * 86400),
    )
    avatar_max: int = _row(10 << 20, "Largest file of a user's picture, in bytes", _between(1024, 1 << 30))
    avatars_per_hour: int = _row(
        20, "Pictures of themselves that one user may upload per hour", _between(1, 1e6)
    )
    picture_wait: float = _row(
        5.0,
        "Seconds that a request waits for an uploaded picture to be drawn; it appears later otherwise",
        _between(0, 30),
    )
    picture_pixels: int = _row(
        33_177_600, "Most pixels of a picture; larger ones aren't decoded", _between(1 << 16, 1 << 28)
    )
    picture_side: int = _row(12_000, "Longest side of a picture, in pixels", _between(256, 65_535))
    picture_animation_pixels: int = _row(
        200_000_000,
        "Most pixels of all frames of an animation; of a longer one, Eventr shows the first frame",
        _between(0, 1 << 32),
    )
    picture_animation_seconds: float = _row(
        5.0,
        "Longest CPU time to draw an animation, in seconds; if it takes longer, Eventr shows the first frame",
        _between(0, 60),
    )

    # -- jobs
    queues_file: Path | None = _row(
        None, "TOML file with the settings of worker groups and queues; empty: built-in file", common=True
    )
    pull_batch: int = _row(100, "Feeds per pull job", _between(1, 500))
    pull_batches: int = _row(3, "Pull jobs that one worker runs at once", _between(1, 64))
    claim_seconds: int = _row(180, "Seconds that a worker's claim on a feed lasts", _between(10, 3600))
    job_timeout: int = _row(120, "Longest run of a job, in seconds", _between(1, 86400))
    job_retries: int = _row(3, "Failures or crashes after which a job is given up", _between(1, 100))
    job_backoff: float = _row(
        2.0, "First wait before a failed job is retried, in seconds", _between(0.01, 3600)
    )
    job_backoff_factor: float = _row(2.0, "Factor by which each further wait grows", _between(1, 10))
    job_backoff_most: float = _row(
        3600.0, "Longest wait before a failed job is retried, in seconds", _between(0.01, 1e6)
    )
    job_backoff_jitter: float = _row(
        0.2, "Fraction by which waits vary at random, so that retries spread out", _between(0, 1)
    )
    result_ttl: int = _row(120, "Seconds to keep job results", _between(10, 86400))
    failure_ttl: int = _row(86400, "Seconds to keep failed jobs", _between(60, 1e7))
    dead_max: int = _row(10_000, "Permanently failed jobs to keep, newest first", _between(1, 1e6))
    worker_memory: int = _row(
        500 << 20, "Resident memory above which a worker is replaced, in bytes", _between(1 << 26, 1 << 40)
    )
    worker_nice: int = _row(
        5, "Nice level of workers, so that the web server gets the CPU first", _between(0, 19)
    )
    worker_lifetime: int = _row(3600, "Seconds after which a worker is replaced", _between(10, 1e7))
    worker_stall: float = _row(
        15.0, "Seconds without a heartbeat after which a worker is killed", _between(1, 3600)
    )
    manager_lease: float = _row(
        30.0,
        ("Seconds without a heartbeat after which a manager and all its workers count as lost"),
        _between(1, 600),
    )
    repl_listen: str = _row(
        "",
        (
            "Loopback address and port on which a manager accepts REPL commands in addition "
            "to its socket; empty: socket only"
        ),
        _loopback,
    )
    metrics_listen: str = _row(
        "",
        (
            "Address and port for the manager's metrics and health. The controller and the "
            "updater use the next two ports. Loopback only, unless EVENTR_METRICS_TOKEN is "
            "set; empty: off"
        ),
        _listening,
        common=True,
    )
    metrics_token: str = _row("", "Bearer token required by the metrics ports", _secret_key, secret=True)
    report_urls: str = _row(
        "",
        "Recipients of the hourly report as Apprise URLs, separated by spaces; empty: no report",
        secret=True,
        common=True,
    )
    stop_grace: float = _row(
        10.0, "Seconds that running jobs get to finish when a worker stops", _between(0, 600)
    )
    updater_interval: float = _row(5.0, "Time between checks for due feeds, in seconds", _between(0.1, 600))
    updater_lease: float = _row(
        10.0,
        ("Lease of the active updater, in seconds; another updater takes over one second after it expires"),
        _between(1, 600),
    )
    updater_work: float = _row(
        60.0,
        "Most work waiting in the system pull queue, in seconds at the measured throughput",
        _between(1, 120),
    )

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None) -> Settings:
        """Read and check all settings.

        Raises:
            SettingsError: a value is invalid; the message names the variable and the valid values.
        """
        env = os.environ if env is None else env
        return cls(**{f.name: v for f in dataclasses.fields(cls) if (v := _read(f, env)) is not None})

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            check = field.metadata["check"]
            problem = check(getattr(self, field.name)) if check else None
            if problem:
                raise SettingsError(f"{build_env_name(field.name)} {problem}.", setting=field.name)
        if self.poll_min > self.poll_max:
            raise SettingsError("EVENTR_POLL_MIN can't be greater than EVENTR_POLL_MAX.", setting="poll_min")
        if self.media_copies > max(1, len(self.media_stores)):
            text = "EVENTR_MEDIA_COPIES can't be greater than the number of addresses in EVENTR_MEDIA_STORES."
            raise SettingsError(text, setting="media_copies")
        if self.metrics_listen and not self.metrics_token and (problem := _loopback(self.metrics_listen)):
            text = f"EVENTR_METRICS_LISTEN {problem}, unless EVENTR_METRICS_TOKEN is set."
            raise SettingsError(text, setting="metrics_listen")

    @property
    def own_origin(self) -> str:
        """The scheme, host and port by which people reach this server."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.base_url.rstrip("/") or f"http://{host}:{self.port}"

    @property
    def is_picture_proxy(self) -> bool:
        """Whether pictures of other sites are shown through this server, which has to draw them."""
        return self.images == "proxy" and can_draw()

    def redact_secrets(self) -> dict[str, str]:
        """Return name → value as text; secrets that are set appear as ``•••``."""
        return {
            f.name: "•••" if f.metadata["secret"] and getattr(self, f.name) else _text(getattr(self, f.name))
            for f in dataclasses.fields(self)
        }


@functools.cache
def can_draw() -> bool:
    """Return whether the package that draws pictures is installed."""
    return find_spec("PIL") is not None


def build_env_name(field: str) -> str:
    """Return the environment variable of a setting: ``fetch_allow`` → ``EVENTR_FETCH_ALLOW``."""
    return PREFIX + field.upper()


def find_unknown_settings(env: Mapping[str, str] | None = None) -> list[str]:
    """Return a sentence for each variable that looks like one of ours but isn't read."""
    env = os.environ if env is None else env
    fields = dataclasses.fields(Settings)
    files = {build_env_name(field.name) + "_FILE": field.metadata["secret"] for field in fields}
    known = {build_env_name(field.name) for field in fields} | {
        name for name, secret in files.items() if secret
    }
    return [
        (f"{name} isn't used: only secrets can come from a file. Set {name.removesuffix('_FILE')} instead.")
        if name in files
        else (f"{name} isn't a setting. Did you mean {difflib.get_close_matches(name, known, 1, 0)[0]}?")
        for name in sorted(env)
        if name.startswith(PREFIX) and name not in known
    ]


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else "" if value is None else str(value)


def _read(field: dataclasses.Field[Any], env: Mapping[str, str]) -> Any:
    name = build_env_name(field.name)
    raw = _secret(field, env) if field.metadata["secret"] else env.get(name)
    if raw is None:
        return None
    try:
        return _convert(get_type_hints(Settings)[field.name], raw)
    except ValueError as e:
        raise SettingsError(f"{name} is {raw!r}, but it {e}.", setting=field.name) from e


def _secret(field: dataclasses.Field[Any], env: Mapping[str, str]) -> str | None:
    name = build_env_name(field.name)
    raw, path = env.get(name), env.get(name + "_FILE")
    if not path:
        return raw
    if raw and raw.strip():
        raise SettingsError(f"{name} and {name}_FILE are both set. Remove one of them.", setting=field.name)
    # An error, because without this value Eventr would use its own store or key, or no proxy.
    try:
        text = Path(path).read_text("utf-8").strip()
        why = "" if text else "the file is empty"
    except OSError as e:
        text, why = "", str(e.strerror)
    except UnicodeDecodeError:
        text, why = "", "the file isn't valid UTF-8"
    if why:
        raise SettingsError(f"{name}_FILE: can't read {path} ({why}).", setting=field.name)
    return text


def _convert(kind: Any, raw: str) -> Any:
    raw = raw.strip()
    if kind is bool:
        if raw.lower() not in _TRUE | _FALSE:
            raise ValueError("must be yes or no")
        return raw.lower() in _TRUE
    if kind in (int, float):
        try:
            return kind(raw)
        except ValueError:
            raise ValueError("must be a number") from None
    if kind == tuple[str, ...]:
        return tuple(part.strip() for part in raw.split(",") if part.strip())
    if kind == tuple[int, ...]:
        try:
            return tuple(int(part) for part in raw.split(",") if part.strip())
        except ValueError:
            raise ValueError("must be comma-separated numbers") from None
    if kind == Path | None:
        return Path(raw) if raw else None
    return Path(raw) if kind is Path else raw
