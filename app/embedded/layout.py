"""Layout of a one-machine set-up: folders, sockets, locks and addresses below the data folder HOME.

 HOME/data/mongodb, HOME/data/redis   permanent data
 HOME/data/NAME.lock                  held by the process that uses the data; without one it has no meaning
 HOME/log/NAME.log                    one file per process, rotated by size
 HOME/run                             sockets; may be deleted while nothing runs
 HOME/secret_key                      created at the first start
 HOME/search/                         the search index
 HOME/search_id                       names this folder as the place of the index

Everything follows from the settings alone, so any process finds the servers without a query.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import stat
import tempfile
from pathlib import Path
from urllib.parse import quote

from app.config import Settings
from app.errors import StartupError
from app.runtime import sockets

#: sun_path of a unix socket holds 108 bytes with its final NUL (unix(7)); this leaves room for file names.
_LONGEST_FOLDER = 80


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """The folders of one data folder; nothing is created before :meth:`make_folders`."""

    home: Path

    @classmethod
    def from_settings(cls, settings: Settings) -> Layout:
        return cls(Path(os.path.abspath(settings.home)))

    @property
    def log(self) -> Path:
        return self.home / "log"

    @property
    def run(self) -> Path:
        return self.home / "run"

    @property
    def instance_lock(self) -> Path:
        """The lock of this data folder's one ``eventr up``, or of a command that runs the servers."""
        return self.get_lock_path("eventr")

    @property
    def secret_key(self) -> Path:
        return self.home / "secret_key"

    @property
    def sockets(self) -> Path:
        """The folder of the sockets: HOME/run, or a short private one if that path is too long."""
        if len(os.fsencode(self.run)) <= _LONGEST_FOLDER:
            return self.run
        digest = hashlib.sha256(os.fsencode(self.home)).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"eventr-{os.getuid()}-{digest}"

    @property
    def mongodb_socket(self) -> Path:
        """The socket that mongod creates; its path is also the member's name in the replica set."""
        return self.sockets / "mongodb.sock"

    @property
    def mongodb_ready_socket(self) -> Path:
        """A link to :attr:`mongodb_socket`, which exists only while that server accepts writes."""
        return self.sockets / "mongodb-door.sock"

    @property
    def redis_socket(self) -> Path:
        return self.sockets / "redis.sock"

    @property
    def mongodb_uri(self) -> str:
        return _direct(self.mongodb_ready_socket)

    @property
    def mongodb_member_uri(self) -> str:
        """The address of the server itself, even before it is ready."""
        return _direct(self.mongodb_socket)

    @property
    def redis_url(self) -> str:
        return f"unix://{self.redis_socket}?db=0"

    def get_data_dir(self, name: str) -> Path:
        return self.home / "data" / name

    def get_lock_path(self, name: str) -> Path:
        """Return the lock's path, next to the data it protects: run/ may be deleted at any time."""
        return self.home / "data" / f"{name}.lock"

    def make_folders(self) -> None:
        """Create all folders, readable by this user only.

        Raises:
            StartupError: a folder can't be created or isn't writable, or others can enter HOME/run.
        """
        _make_private(self.home)
        _make_private(self.run)
        sockets.require_private(self.run)  # before creating anything next to the system's run folder
        for folder in (self.home / "data", self.log, self.sockets):
            _make_private(folder)


def _make_private(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as e:
        raise StartupError(
            f"Can't write to the folder {folder} ({e.strerror}). Make it writable, or set "
            "EVENTR_HOME to another folder."
        ) from e
    # In a shared temporary folder another user could have created it first, to read the data.
    info = folder.lstat()
    if not stat.S_ISDIR(os.stat(folder).st_mode) or info.st_uid not in (os.getuid(), 0):
        raise StartupError(f"The folder {folder} belongs to another user. Set EVENTR_HOME to another folder.")


def resolve_addresses(settings: Settings) -> Settings:
    """Return the settings with the addresses of the embedded servers where none are set.

    Pure: it doesn't check whether these servers run, see :func:`app.embedded.start_servers`.
    """
    layout = Layout.from_settings(settings)
    return dataclasses.replace(
        settings,
        home=layout.home,
        mongodb_uri=settings.mongodb_uri or layout.mongodb_uri,
        redis_url=settings.redis_url or layout.redis_url,
    )


def _direct(mongodb: Path) -> str:
    # Direct: with one member there is nothing to discover, and a member known by a socket path
    # can't be reached from elsewhere anyway.
    # Poll: a driver then needs one thread and one connection less to watch the server. It looks again every
    # ten seconds, and at once after an error.
    return f"mongodb://{quote(str(mongodb), safe='')}/?directConnection=true&serverMonitoringMode=poll"
