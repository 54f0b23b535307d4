"""Reading apps and the settings for each, for the page of all apps and the page of a new app password.

Apps treat the server's address differently: some append ``/api/greader.php`` themselves, some don't.
"""

from __future__ import annotations

import dataclasses
import enum

from app.errors import N_


class Protocol(enum.StrEnum):
    """The protocol of an app."""

    READER = "Google Reader API"
    FEVER = "Fever API"


#: Paths of the APIs below the server's address; the page shows only these.
READER_MOUNTS = ("", "/api/greader.php", "/api/greader")
FEVER_MOUNTS = ("/fever/", "/fever", "/api/fever.php")
#: The first request of an app, below its mount point.


@dataclasses.dataclass(frozen=True, slots=True)
class Connection:
    """One way to connect an app.

    Attributes:
        kind: Type of account, as the app calls it; not translated.
        mount: The path after the server's address in the app's field.
        notes: Sentences about peculiarities.
        config: Lines of the app's configuration file, with ``{server}``, ``{user}`` and ``{password}``.
    """

    kind: str
    mount: str = ""
    protocol: Protocol = Protocol.READER
    notes: tuple[str, ...] = ()
    config: str = ""

    @property
    def is_fever(self) -> bool:
        """Whether the connection needs a password that also works for the Fever API."""
        return self.protocol is Protocol.FEVER

    def build_address(self, base: str) -> str:
        """Return the server address to enter in the app."""
        return base + self.mount

    def build_config(self, base: str, user: str, password: str) -> str:
        """Return the lines for the app's configuration file."""
        return self.config.format(server=self.build_address(base), user=user, password=password)


@dataclasses.dataclass(frozen=True, slots=True)
class ReadingApp:
    """An app; ``ways``: its connections, the best first."""

    slug: str
    name: str
    systems: str
    ways: tuple[Connection, ...]

    @property
    def needs_fever(self) -> bool:
        """Whether the best connection uses the Fever API."""
        return self.ways[0].is_fever


_GREADER = "/api/greader.php"
_FEVER = "/fever/"
_ADDS_ITSELF = N_("The app adds the rest of the address automatically.")
_NEWSBOAT = """\
urls-source "feedhq"
feedhq-url "{server}"
feedhq-login "{user}"
feedhq-password "{password}"
feedhq-show-special-feeds no
"""


def _fever(mount: str = _FEVER) -> Connection:
    return Connection("Fever", mount, Protocol.FEVER)


APPS: tuple[ReadingApp, ...] = (
    ReadingApp(
        "capy-reader",
        "Capy Reader",
        "Android",
        (
            Connection(
                "FreshRSS", _GREADER, notes=(N_("With this account type, the app also shows folders."),)
            ),
        ),
    ),
    ReadingApp(
        "feedme",
        "FeedMe",
        "Android",
        (
            Connection("FreshRSS", _GREADER, notes=(N_("Set the sync mode to “Everything”."),)),
            _fever(),
        ),
    ),
    ReadingApp(
        "fluent-reader",
        "Fluent Reader",
        "Windows, macOS, Linux",
        (Connection("Google Reader API", _GREADER), _fever()),
    ),
    ReadingApp(
        "liferea",
        "Liferea",
        "Linux",
        (
            Connection(
                "Google Reader API",
                notes=(
                    N_("The app marks entries as read in Eventr, but doesn't show what you read elsewhere."),
                ),
            ),
        ),
    ),
    ReadingApp("netnewswire", "NetNewsWire", "macOS, iOS", (Connection("FreshRSS", _GREADER),)),
    ReadingApp(
        "newsboat",
        "Newsboat",
        "Linux, macOS",
        (
            Connection(
                "feedhq",
                notes=(
                    N_("Add these lines to Newsboat's “config” file."),
                    N_("The sharing flag (feedhq-flag-share) also shares the entry on this server."),
                ),
                config=_NEWSBOAT,
            ),
        ),
    ),
    ReadingApp("newsflash", "NewsFlash", "Linux", (Connection("FreshRSS", _GREADER), _fever())),
    ReadingApp("readkit", "ReadKit", "macOS, iOS", (Connection("FreshRSS", notes=(_ADDS_ITSELF,)), _fever())),
    ReadingApp(
        "readrops",
        "Readrops",
        "Android",
        (Connection("FreshRSS", notes=(_ADDS_ITSELF,)), _fever()),
    ),
    ReadingApp(
        "readyou", "Read You", "Android", (Connection("FreshRSS", _GREADER), _fever("/api/fever.php"))
    ),
    ReadingApp(
        "reeder",
        "Reeder Classic",
        "macOS, iOS",
        (Connection("FreshRSS", notes=(_ADDS_ITSELF,)), _fever()),
    ),
    ReadingApp(
        "rss-guard",
        "RSS Guard",
        "Windows, macOS, Linux",
        (
            Connection("FreshRSS", notes=(_ADDS_ITSELF,)),
            Connection("Other services", notes=(N_("This account type works, too."),)),
        ),
    ),
    ReadingApp(
        "unread",
        "Unread",
        "macOS, iOS",
        (_fever(), Connection("FreshRSS", _GREADER, notes=(N_("Requires version 5 or later."),))),
    ),
    ReadingApp(
        "vienna",
        "Vienna",
        "macOS",
        (Connection("FreshRSS", _GREADER, notes=(N_("Enter this in the app's settings under “Syncing”."),)),),
    ),
)
BY_SLUG = {app.slug: app for app in APPS}

#: What the browsers of phones call themselves, and the system of the apps that run there.
_PHONES = {"Android": "Android", "iPhone": "iOS", "iPad": "iOS"}


def sort_apps(agent: str) -> list[ReadingApp]:
    """Return all apps; on a phone, those that run there come first.

    Args:
        agent: how the browser describes itself.
    """
    system = next((system for word, system in _PHONES.items() if word in agent), "")
    return sorted(APPS, key=lambda app: bool(system) and system not in app.systems)
