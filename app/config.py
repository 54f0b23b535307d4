"""Settings: one frozen table, read from the environment once at start and passed in from there.

Each row is a field of :class:`Settings`; its metadata holds the help text, whether it is secret and
how it is checked. The environment name is ``EVENTR_`` and the field name in capitals; for secret
settings ``EVENTR_<NAME>_FILE`` names a file that holds the value. Nothing else reads the environment.
"""

from __future__ import annotations

import dataclasses
import difflib
import ipaddress
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_type_hints
from urllib.parse import urlsplit

from app.errors import SettingsError

PREFIX = "EVENTR_"
_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off", ""}
#: What a server is called by, with its port. Home networks and containers have names with ``_``.
HOST = re.compile(
    r"([a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?", re.ASCII | re.IGNORECASE
)

Check = Callable[[Any], str | None]


def _between(low: float, high: float) -> Check:
    # Whole numbers as they are typed in, not as 2.68435e+08.
    bounds = " and ".join(f"{int(n) if n == int(n) else n}" for n in (low, high))
    return lambda v: None if low <= v <= high else f"must be between {bounds}"


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
        return "must have its name as browsers send it: with xn--… for what is not ASCII"
    try:
        parts = urlsplit(value)
        # Put together again it lacks what urlsplit passes over, and all behind host and port.
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
    # Not quoted: it may hold a password.
    return None if fits or not value else "must be an address like http://HOST:PORT or socks5h://HOST:PORT"


def _database(value: str) -> str | None:
    fits = value.isprintable() and 0 < len(value.encode()) < 64 and not set('/\\. "$') & set(value)
    return None if fits else "must be a name of at most 63 bytes without spaces, dots, slashes, quotes and $"


def _header(value: str) -> str | None:
    return None if value.isascii() and value.isprintable() else "must be one line of ASCII"


def _ports(value: tuple[int, ...]) -> str | None:
    return None if all(0 < port < 1 << 16 for port in value) else "must hold ports from 1 to 65535"


def _folder(value: Path | None) -> str | None:
    readable = value is None or (os.path.isdir(value) and os.access(value, os.R_OK | os.X_OK))
    return None if readable else "must be a folder that can be read"


def _contact(value: str) -> str | None:
    mail = value.startswith("mailto:") and "@" in value[8:-1]
    fits = (mail or (value.startswith("https://") and len(value) > 8)) and value.isascii()
    if not value or (fits and value.isprintable() and " " not in value and len(value) <= 254):
        return None
    return "must be an address like mailto:you@example.org or https://example.org/contact"


def _rates(value: tuple[str, ...]) -> str | None:
    for row in value:
        name, _, number = row.partition("=")
        if not name.strip() or not number.strip().replace(".", "", 1).isdigit() or float(number) > 10_000:
            return f"must hold rows like *.example.com=5, not {row!r}"
    return None


def _loopback(value: str) -> str | None:
    host, _, port = value.rpartition(":")
    try:
        # No names: what "localhost" means is decided elsewhere.
        fits = ipaddress.ip_address(host.strip("[]")).is_loopback and 0 <= int(port) < 1 << 16
    except ValueError:
        fits = False
    return None if fits or not value else "must be a loopback address and a port, such as 127.0.0.1:7117"


def _listening(value: str) -> str | None:
    host, _, port = value.rpartition(":")
    try:
        ipaddress.ip_address(host.strip("[]"))
        fits = 0 <= int(port) < (1 << 16) - 8  # the processes of a machine take the next ports
    except ValueError:
        fits = False
    return None if fits or not value else "must be an address and a port, such as 127.0.0.1:9180"


def _secret_key(value: str) -> str | None:
    return None if not value or len(value) >= 32 else "must have at least 32 random characters"


def _row(default: Any, text: str, check: Check | None = None, *, secret: bool = False) -> Any:
    return dataclasses.field(default=default, metadata={"help": text, "check": check, "secret": secret})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of all processes; see ``eventr settings`` for the table with its values.

    Durations are seconds, sizes bytes, unless the name says otherwise.
    """

    # -- where things are
    home: Path = _row(Path("var"), "Folder for data, logs, sockets and keys of a one-machine set-up")
    mongodb_uri: str = _row(
        "",
        "MongoDB replica set or cluster; empty: the embedded server",
        _url("mongodb", "mongodb+srv"),
        secret=True,
    )
    mongodb_name: str = _row("eventr", "Name of the MongoDB database", _database)
    redis_url: str = _row(
        "", "Redis 6.2 or newer; empty: the embedded server", _url("redis", "rediss", "unix"), secret=True
    )
    embedded_cache: int = _row(512 << 20, "Cache of the embedded MongoDB", _between(1 << 28, 1 << 40))
    log_level: str = _row("info", "Least severe level logged", _one_of("debug", "info", "warning", "error"))
    log_format: str = _row("text", "Log lines as text or json", _one_of("text", "json"))

    # -- web
    base_url: str = _row("", "Public address of this server; empty: http://HOST:PORT", _origin)
    host: str = _row("127.0.0.1", "Address the web tier listens on")
    port: int = _row(8080, "Port the web tier listens on", _between(0, 65535))
    web_workers: int = _row(2, "Web processes", _between(1, 256))
    web_threads: int = _row(8, "Threads per web process", _between(1, 256))
    secret_key: str = _row(
        "",
        "Key for signatures; empty: made at first start and kept in HOME/secret_key",
        _secret_key,
        secret=True,
    )
    trusted_proxies: int = _row(
        0, "Reverse proxies in front whose X-Forwarded-* are believed", _between(0, 8)
    )
    signup: str = _row("open", "Who may sign up after the first user", _one_of("open", "closed", "invite"))
    session_idle: int = _row(14 * 86400, "A session ends after so long without use", _between(60, 1e9))
    session_max: int = _row(90 * 86400, "A session ends after so long in any case", _between(60, 1e9))
    # Such a body is there whole before a thread touches it; a thread has to wait for the rest of a longer
    # one. There are forms alone, and no route takes a file.
    max_request_bytes: int = _row(64 << 10, "Largest request body", _between(1024, 1 << 30))
    discovery_wait: float = _row(
        5.0, "How long a page waits for a discovery before it answers 'wait'", _between(0, 30)
    )
    page_size: int = _row(50, "Entries per page of a stream", _between(1, 1000))
    whole_page_size: int = _row(10, "Entries per page where their whole texts are shown", _between(1, 100))
    whole_text_max: int = _row(100_000, "Characters of HTML of one text in a list", _between(1000, 1 << 20))
    argon2_memory_kib: int = _row(65536, "Argon2id memory", _between(19456, 1 << 22))
    argon2_time: int = _row(3, "Argon2id passes", _between(1, 64))
    reset_ttl: int = _row(1800, "How long a link for a new password is good", _between(60, 1e6))
    proof_ttl: int = _row(
        600, "After so long without the password, changing who may what asks for it", _between(1, 86400)
    )
    login_failures: int = _row(5, "Failed logins per account and address before waiting", _between(1, 1000))
    login_window: int = _row(900, "Window in which failed logins are counted", _between(1, 86400))

    # -- events for browsers
    events_host: str = _row("127.0.0.1", "Address the controller serves /events on, if it has a port")
    events_port: int = _row(
        0,
        "Port the controller serves /events on, for proxies; 0: the web tier hands over",
        _between(0, 65535),
    )
    events_pass_ttl: int = _row(60, "How long a pass to /events holds", _between(5, 3600))
    events_streams: int = _row(5000, "Open streams of one controller", _between(1, 100_000))
    events_per_user: int = _row(20, "Open streams of one user", _between(1, 10_000))
    events_per_address: int = _row(200, "Open streams of one address (IPv6: /64)", _between(1, 100_000))
    events_beat: float = _row(25.0, "Longest silence of a stream", _between(1, 300))
    events_stall: float = _row(20.0, "A browser that takes nothing for so long is dropped", _between(1, 600))
    events_lifetime: float = _row(
        900.0, "A stream ends after so long, to be asked for anew", _between(5, 86400)
    )

    # -- fetching
    user_agent: str = _row("", "User-Agent for feeds; empty: Eventr with the public address", _header)
    fetch_allow: tuple[str, ...] = _row(
        (),
        "Private targets that may be fetched: CIDR or host:port, comma-separated; a host:port opens that "
        "port, a CIDR opens none beyond those of EVENTR_FETCH_PORTS",
    )
    fetch_ports: tuple[int, ...] = _row(
        (80, 443, 8080, 8443), "Ports that may be fetched, of public and of private hosts", _ports
    )
    fetch_proxy: str = _row(
        "", "Proxy for all fetches; address filtering is then its task", _proxy, secret=True
    )
    fetch_connections: int = _row(200, "Connections of one worker", _between(1, 10000))
    fetch_per_host: int = _row(2, "Connections to one host", _between(1, 64))
    fetch_host_rate: float = _row(
        2.0, "Requests per second to one host, over all workers and servers", _between(0.001, 10000)
    )
    fetch_host_burst: int = _row(
        20, "… and so many at once after a pause; people may have as many again", _between(1, 10000)
    )
    fetch_host_rest: float = _row(
        900.0,
        "A host rests for at most so long when one of its feeds asks for it, twice as long for each more",
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
        "Hosts with a rate of their own: name=rate, or *.name=rate for all names below it together; 0: any",
        _rates,
    )
    fetch_connect_timeout: float = _row(5.0, "DNS, connect and TLS, each", _between(0.1, 60))
    fetch_first_byte_timeout: float = _row(10.0, "Until the first byte of an answer", _between(0.1, 60))
    fetch_idle_timeout: float = _row(10.0, "Between two bytes of an answer", _between(0.1, 60))
    fetch_total_timeout: float = _row(30.0, "A whole fetch with its redirects", _between(0.1, 300))
    fetch_redirects: int = _row(5, "Redirects followed", _between(0, 20))
    fetch_max_feed: int = _row(10 << 20, "Largest feed, decoded", _between(1024, 1 << 30))
    fetch_max_page: int = _row(5 << 20, "Largest page, decoded", _between(1024, 1 << 30))
    fetch_max_header: int = _row(64 << 10, "All headers of an answer", _between(1024, 1 << 20))
    fetch_max_ratio: int = _row(
        100, "Largest ratio of decoded to compressed size after 1 MiB", _between(2, 10000)
    )

    # -- reading a feed
    feed_max_items: int = _row(2000, "Items read of one answer", _between(1, 100000))
    entry_max_html: int = _row(1 << 20, "Longest HTML of an entry", _between(1024, 1 << 24))
    title_max: int = _row(1024, "Longest title", _between(16, 1 << 16))
    xml_max_depth: int = _row(128, "Deepest nesting of a feed's XML", _between(8, 256))
    xml_max_attributes: int = _row(64, "Attributes of one XML element", _between(8, 10000))
    fallback_max: int = _row(
        2 << 20, "Largest body given to the slow fallback parser", _between(1024, 1 << 26)
    )

    opml_max_bytes: int = _row(5 << 20, "Largest OPML file", _between(1024, 1 << 30))
    opml_max_outlines: int = _row(20_000, "Outlines of one OPML file", _between(1, 1_000_000))
    opml_max_depth: int = _row(32, "Deepest nesting of outlines", _between(1, 200))
    imports_at_once: int = _row(10, "Imports that run at once; the others wait", _between(1, 1000))
    addresses_per_hour: int = _row(
        60, "Feeds to which one user may give another address per hour", _between(1, 10_000)
    )
    pulls_per_minute: int = _row(
        20,
        "Feeds that one user may have fetched at once per minute; the updater fetches further new ones",
        _between(1, 10_000),
    )
    imports_per_hour: int = _row(60, "Files that one user may send per hour", _between(1, 10_000))
    import_window: int = _row(200, "Feeds of one import that are fetched at once", _between(1, 10_000))
    import_patience: float = _row(
        900.0, "An import waits so long for a feed that its host lets nobody fetch", _between(1, 86400)
    )
    import_keep_days: int = _row(30, "Days that a finished import is kept", _between(1, 3650))
    packs_dir: Path | None = _row(None, "Folder with starter packs as OPML; empty: those of Eventr", _folder)

    # -- schedule
    poll_min: int = _row(120, "Shortest time between polls of a feed", _between(1, 86400))
    poll_max: int = _row(3600, "Longest time between polls of a healthy feed", _between(1, 86400))
    poll_push: int = _row(6 * 3600, "Time between polls while pushes prove to work", _between(60, 86400))
    poll_unread: int = _row(86400, "Time between polls of a feed nobody read for 30 days", _between(60, 1e6))
    error_backoff_min: int = _row(300, "First wait after an error; doubles", _between(1, 86400))
    error_backoff_max: int = _row(86400, "Longest wait after errors", _between(60, 1e6))
    websub: str = _row(
        "auto", "Subscribe to hubs; auto: where they can reach BASE_URL", _one_of("auto", "on", "off")
    )
    websub_interval: int = _row(30, "Shortest time between two pulls of a feed for pushes", _between(1, 3600))
    websub_max_bytes: int = _row(4 << 20, "Largest push that is read", _between(1024, 1 << 26))
    retention_entries: int = _row(5000, "Entries kept per feed", _between(100, 1e7))

    # -- reading
    unread_days: int = _row(
        30, "A new subscription starts with what is younger than this unread", _between(0, 3650)
    )
    unread_min: int = _row(10, "… but at least so many", _between(0, 1000))
    unread_max: int = _row(100, "… and at most so many", _between(1, 10000))
    subscriptions_max: int = _row(10000, "Subscriptions of one user", _between(1, 1e6))
    tags_per_entry: int = _row(30, "Tags of one entry", _between(1, 1000))
    tags_per_user: int = _row(1000, "Tags of one user", _between(1, 100_000))
    tag_length: int = _row(64, "Characters of a tag", _between(1, 256))
    searches_max: int = _row(100, "Saved searches of one user", _between(0, 10_000))
    search_patience: float = _row(
        0.5, "A search that found little in so long shows it, and goes on when asked", _between(0.01, 10)
    )
    search_text: int = _row(
        32 << 10, "Characters of an entry's HTML that the search reads", _between(256, 1 << 22)
    )
    search_words: int = _row(1000, "Different words of an entry that can be found", _between(16, 10_000))
    stream_views_max: int = _row(2000, "Streams of one user whose view is remembered", _between(1, 1e6))
    mark_range_max: int = _row(
        5000, "Rows of a list that “mark above” and “below” look at", _between(1, 100_000)
    )
    snapshot_ttl: int = _row(86400, "How long an unread-on-top snapshot is kept", _between(60, 1e6))
    history_rows: int = _row(100, "Rows of a page of what can be taken back", _between(1, 1000))
    undo_ttl: int = _row(86400, "How long a mass action can be undone", _between(60, 1e6))

    # -- sharing
    shares_audience: str = _row(
        "public",
        "Who sees what somebody shares, until he says otherwise",
        _one_of("public", "followers", "private"),
    )
    name_days: int = _row(
        90,
        "So many days a former name leads to its owner's page, and nobody else can take it",
        _between(0, 3650),
    )
    names_kept: int = _row(5, "Former names of one user that are kept for him so", _between(0, 100))
    note_length: int = _row(5000, "Characters of a note to a share, or of a post", _between(1, 1e6))
    chain_depth: int = _row(100, "Hands through which an entry may pass", _between(1, 1000))
    chain_rows: int = _row(100, "Shares on a page of a chain", _between(1, 1000))
    chain_count_max: int = _row(10_000, "Shares of an entry that are counted", _between(1, 1e6))
    trend_half_life: int = _row(
        86400, "After so long a share counts half among what is shared most", _between(600, 1e7)
    )
    trend_days: int = _row(14, "What was not shared for so many days is among it no longer", _between(1, 365))
    trend_rows: int = _row(50, "Rows of what is shared most", _between(1, 500))
    landing_rows: int = _row(
        5, "Rows of it on the page for strangers, of what is for everybody; 0: none", _between(0, 50)
    )
    similar_people: int = _row(
        1000, "People who want to be found whose feeds are compared with one's own", _between(1, 1e5)
    )
    shared_rows: int = _row(20, "Shares on a page of a shared stream, and in its feeds", _between(1, 200))
    reshares_counted: int = _row(50, "Re-shares of a share that are counted beside it", _between(1, 1000))
    shares_per_hour: int = _row(120, "Shares and posts of one user", _between(1, 1e6))
    follows_per_hour: int = _row(200, "People whom one user may begin to follow", _between(1, 1e6))
    tokens_max: int = _row(50, "App passwords and API tokens of one user", _between(1, 1000))
    changes_days: int = _row(
        30, "What was read, starred, tagged is known to syncing programs for so many days", _between(1, 400)
    )
    changes_max: int = _row(
        10000,
        "Entries of one mass action, or of a changed tag, that syncing programs are told of",
        _between(100, 1e6),
    )
    sync_gather_max: int = _row(
        20000,
        "Entries a syncing program is told of at once by what changed, or by marks",
        _between(1000, 1e6),
    )
    api_per_minute: int = _row(6000, "Requests of one user's programs within a minute", _between(1, 1e6))
    api_max_bytes: int = _row(1 << 20, "Largest request body of a program", _between(1 << 16, 1 << 24))
    idempotency_ttl: int = _row(
        86400, "How long the answer to a request with an Idempotency-Key is kept", _between(60, 1e7)
    )
    idempotency_lease: int = _row(
        120,
        "A request with an Idempotency-Key that gave no answer for so long may run again",
        _between(1, 3600),
    )
    reports_per_hour: int = _row(20, "Reports of one user to the administrators", _between(1, 1e6))

    # -- the hub for what people share
    hub: str = _row(
        "auto",
        "Push public streams to who subscribes to them; auto: where others can reach BASE_URL",
        _one_of("auto", "on", "off"),
    )
    hub_lease: int = _row(
        10 * 86400, "How long a subscription holds that asks for no time", _between(60, 1e9)
    )
    hub_lease_min: int = _row(3600, "Shortest time that a subscription holds", _between(1, 1e9))
    hub_lease_max: int = _row(30 * 86400, "Longest time that a subscription holds", _between(60, 1e9))
    hub_stream_max: int = _row(20_000, "Subscriptions to one person's stream", _between(1, 100_000))
    hub_host_max: int = _row(10_000, "Subscriptions of callbacks on one host", _between(1, 1e7))
    hub_per_hour: int = _row(1000, "Requests to the hub from one address (IPv6: /64)", _between(1, 1e6))
    hub_form_max: int = _row(16 << 10, "Largest request to the hub", _between(1024, 1 << 20))
    hub_callback_length: int = _row(2048, "Longest address of a callback", _between(64, 8192))
    hub_secret_length: int = _row(199, "Longest secret of a subscription", _between(1, 1024))
    hub_push_max: int = _row(4 << 20, "Largest feed that is pushed", _between(1024, 1 << 26))
    hub_batch: int = _row(200, "Pushes sent at once", _between(1, 10_000))
    hub_timeout: float = _row(
        10.0, "A callback may take so long for a push, at most EVENTR_FETCH_TOTAL_TIMEOUT", _between(0.1, 60)
    )
    hub_asks: int = _row(3, "Tries to ask a callback whether it wants to subscribe", _between(1, 100))
    hub_failures: int = _row(12, "Failed pushes in a row after which a callback is dropped", _between(1, 100))
    hub_backoff_min: int = _row(60, "First wait after a failed push; doubles", _between(1, 86400))
    hub_backoff_max: int = _row(6 * 3600, "Longest wait after failed pushes", _between(1, 1e6))

    # -- talk
    likes_per_hour: int = _row(600, "Likes of one user", _between(1, 1e6))
    comments_per_hour: int = _row(60, "Comments of one user", _between(1, 1e6))
    comment_length: int = _row(2000, "Characters of a comment", _between(1, 50_000))
    comment_depth: int = _row(6, "Levels of answers; deeper ones stand below each other", _between(1, 100))
    comment_rows: int = _row(50, "Comments on a page", _between(1, 1000))
    talk_count_max: int = _row(1000, "Likes and comments of a share that are counted", _between(1, 100_000))
    notifications_days: int = _row(60, "Days that a notification is kept", _between(1, 3650))
    notifications_max: int = _row(500, "Notifications kept of one user, the newest", _between(1, 100_000))
    notification_rows: int = _row(30, "Notifications on a page", _between(1, 1000))
    feed_broken_days: int = _row(7, "After so many days of failing a feed is told of", _between(1, 3650))

    # -- notifications on devices (web push)
    push: bool = _row(True, "People may be told on their devices; browsers want HTTPS or loopback for it")
    push_contact: str = _row(
        "",
        "Whom push services may write to: mailto: or https:; empty: BASE_URL",
        _contact,
    )
    push_devices: int = _row(20, "Devices of one user", _between(1, 1000))
    push_per_hour: int = _row(
        60, "Devices that one user may register, and tests he may send, per hour", _between(1, 1e6)
    )
    push_endpoint_length: int = _row(1024, "Longest address of a push service", _between(64, 2048))
    # RFC 8030 §7.2: each service takes 4096; encryption adds 103.
    push_payload: int = _row(2048, "Longest message to a device, before encryption", _between(256, 3993))
    push_ttl: int = _row(
        86400, "So long a push service keeps a message for a device that is off", _between(0, 2419200)
    )
    push_pause: int = _row(
        300, "A notification that grows rings again after so long at the earliest", _between(0, 86400)
    )
    push_timeout: float = _row(
        5.0,
        "A push service may take so long for a message, at most EVENTR_FETCH_TOTAL_TIMEOUT",
        _between(0.1, 60),
    )
    push_tries: int = _row(5, "Tries to send a message", _between(1, 100))
    push_backoff_min: int = _row(30, "First wait after a try that failed; doubles", _between(1, 86400))
    push_backoff_max: int = _row(3600, "Longest wait after tries that failed", _between(1, 86400))
    push_failures: int = _row(
        5, "Messages in a row that were not taken after which a device is dropped", _between(1, 1000)
    )

    # -- all that is somebody's own, as a file
    export_max: int = _row(
        1 << 30,
        "Largest file of all that is a user's own, before it is packed",
        _between(1024, (1 << 31) - 1),
    )
    export_ttl: int = _row(86400, "How long such a file can be downloaded", _between(60, 30 * 86400))
    exports_per_day: int = _row(5, "Such files that one user may have made in a day", _between(1, 1000))

    # -- jobs
    queues_file: Path | None = _row(None, "TOML file with settings per queue; empty: the built-in table")
    pull_batch: int = _row(100, "Feeds in one pull job", _between(1, 500))
    pull_batches: int = _row(3, "Pull jobs one worker holds at once", _between(1, 64))
    claim_seconds: int = _row(180, "How long a claimed feed is left alone", _between(10, 3600))
    job_timeout: int = _row(120, "Longest run of a job", _between(1, 86400))
    job_retries: int = _row(3, "Runs of a failing job, and crashes until a job is given up", _between(1, 100))
    job_backoff: float = _row(2.0, "First wait before a failed job runs again", _between(0.01, 3600))
    job_backoff_factor: float = _row(2.0, "Each further wait is so many times longer", _between(1, 10))
    job_backoff_most: float = _row(3600.0, "Longest wait before a failed job runs again", _between(0.01, 1e6))
    job_backoff_jitter: float = _row(
        0.2, "Part by which waits differ, so that a herd spreads", _between(0, 1)
    )
    result_ttl: int = _row(120, "How long results are kept", _between(10, 86400))
    failure_ttl: int = _row(86400, "How long failures are kept", _between(60, 1e7))
    dead_max: int = _row(10_000, "Tasks that failed for good which are kept, newest", _between(1, 1e6))
    worker_memory: int = _row(
        500 << 20, "Resident memory above which a worker is replaced", _between(1 << 26, 1 << 40)
    )
    worker_nice: int = _row(
        5, "How far workers stand back for people where the processor is short", _between(0, 19)
    )
    worker_lifetime: int = _row(3600, "A worker is replaced after so long", _between(10, 1e7))
    worker_stall: float = _row(
        15.0, "A worker without a sign of life for so long is killed", _between(1, 3600)
    )
    manager_lease: float = _row(
        30.0, "A manager without a heartbeat for so long is lost, with all its workers", _between(1, 600)
    )
    repl_listen: str = _row(
        "",
        "Loopback address and port where a manager takes commands beside its socket; empty: nowhere",
        _loopback,
    )
    metrics_listen: str = _row(
        "",
        "Address and port for metrics and health: of the manager; controller and updater take the next two; "
        "loopback only, unless there is a token; empty: nowhere",
        _listening,
    )
    metrics_token: str = _row(
        "", "Bearer token without which the metrics ports answer nobody", _secret_key, secret=True
    )
    report_urls: str = _row(
        "",
        "Where the hourly report goes: addresses as apprise reads them, separated by spaces; empty: nowhere",
        secret=True,
    )
    stop_grace: float = _row(10.0, "Time that running jobs get when a worker stops", _between(0, 600))
    updater_interval: float = _row(5.0, "Time between two looks for due feeds", _between(0.1, 600))
    updater_lease: float = _row(
        10.0, "Lease of the one updater; another takes over a second after it ran out", _between(1, 600)
    )
    updater_work: float = _row(
        60.0, "Work that waits in the queue of system pulls at most, by the measured pace", _between(1, 120)
    )

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None) -> Settings:
        """Read and check all settings.

        Raises:
            SettingsError: a value does not fit; the message names the variable and what fits.
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
            raise SettingsError("EVENTR_POLL_MIN must not be above EVENTR_POLL_MAX.", setting="poll_min")
        if self.metrics_listen and not self.metrics_token and (problem := _loopback(self.metrics_listen)):
            text = f"EVENTR_METRICS_LISTEN {problem}, unless EVENTR_METRICS_TOKEN is set."
            raise SettingsError(text, setting="metrics_listen")

    @property
    def own_origin(self) -> str:
        """Scheme, host and port that people reach this server by."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.base_url.rstrip("/") or f"http://{host}:{self.port}"

    def redact_secrets(self) -> dict[str, str]:
        """Return name → value as text, secrets that are set shown as ``•••``."""
        return {
            f.name: "•••" if f.metadata["secret"] and getattr(self, f.name) else _text(getattr(self, f.name))
            for f in dataclasses.fields(self)
        }


def build_env_name(field: str) -> str:
    """Return the environment variable of a setting: ``fetch_allow`` → ``EVENTR_FETCH_ALLOW``."""
    return PREFIX + field.upper()


def find_unknown_settings(env: Mapping[str, str] | None = None) -> list[str]:
    """Return a sentence for each variable that looks like one of ours and is not read."""
    env = os.environ if env is None else env
    fields = dataclasses.fields(Settings)
    files = {build_env_name(field.name) + "_FILE": field.metadata["secret"] for field in fields}
    known = {build_env_name(field.name) for field in fields} | {
        name for name, secret in files.items() if secret
    }
    return [
        f"{name} is not read: only secrets may come from a file, so set {name.removesuffix('_FILE')}."
        if name in files
        else f"{name} is no setting: the nearest is {difflib.get_close_matches(name, known, 1, 0)[0]}."
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
        raise SettingsError(f"{name} is {raw!r}, but {e}.", setting=field.name) from e


def _secret(field: dataclasses.Field[Any], env: Mapping[str, str]) -> str | None:
    name = build_env_name(field.name)
    raw, path = env.get(name), env.get(name + "_FILE")
    if not path:
        return raw
    if raw and raw.strip():
        raise SettingsError(f"{name} and {name}_FILE are both set: keep one of them.", setting=field.name)
    # Never passed over: without this value Eventr would go on with its own store or key, or no proxy.
    try:
        text = Path(path).read_text("utf-8").strip()
        why = "" if text else "it is empty"
    except OSError as e:
        text, why = "", str(e.strerror)
    except UnicodeDecodeError:
        text, why = "", "it is not UTF-8"
    if why:
        raise SettingsError(f"{name}_FILE: {path} cannot be read ({why}).", setting=field.name)
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
            raise ValueError("must be numbers, comma-separated") from None
    if kind == Path | None:
        return Path(raw) if raw else None
    return Path(raw) if kind is Path else raw
