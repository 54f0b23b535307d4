"""Apps that people read with, and what each wants typed in: a page of all, and part of a new password.

What apps do with an address differs: some add ``/api/greader.php`` by themselves, some want it typed.
"""

from __future__ import annotations

import dataclasses
import enum

from app.errors import N_


class Protocol(enum.StrEnum):
    """What an app speaks."""

    READER = "Google Reader API"
    FEVER = "Fever API"


#: Where the APIs answer, below the address of the server; the page names nothing else.
READER_MOUNTS = ("", "/api/greader.php", "/api/greader")
FEVER_MOUNTS = ("/fever/", "/fever", "/api/fever.php")
#: What an app asks first, below its mount point.


@dataclasses.dataclass(frozen=True, slots=True)
class Connection:
    """One way to connect an app.

    Attributes:
        kind: type of account, as the app calls it; not translated.
        mount: what follows the server's address in the app's field.
        notes: sentences on what is special.
        config: lines of a file, with ``{server}``, ``{user}`` and ``{password}``.
    """

    kind: str
    mount: str = ""
    protocol: Protocol = Protocol.READER
    notes: tuple[str, ...] = ()
    config: str = ""

    @property
    def is_fever(self) -> bool:
        """Whether it wants a password that was made for the Fever API too."""
        return self.protocol is Protocol.FEVER

    def build_address(self, base: str) -> str:
        """Return what is typed as the server."""
        return base + self.mount

    def build_config(self, base: str, user: str, password: str) -> str:
        """Return the lines of the app's file."""
        return self.config.format(server=self.build_address(base), user=user, password=password)


@dataclasses.dataclass(frozen=True, slots=True)
class ReadingApp:
    """An app; ``ways``: the best first."""

    slug: str
    name: str
    systems: str
    ways: tuple[Connection, ...]

    @property
    def needs_fever(self) -> bool:
        """Whether the best way is the Fever API."""
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
        "newsboat",
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
