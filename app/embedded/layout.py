"""Where a one-machine set-up keeps its things: folders, sockets, locks and addresses below HOME.

    HOME/data/mongodb, HOME/data/redis   what must be kept
    HOME/data/NAME.lock                  held by who uses it; means nothing by itself
    HOME/log/NAME.log                    one file per process, rotated by size
    HOME/run                             sockets; may be deleted when nothing runs
    HOME/secret_key                      made at the first start

Everything here follows from the settings alone, so any process finds the servers without asking one.
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

#: sun_path of a unix socket holds 108 bytes with its final NUL (unix(7)); room for the file name.
_LONGEST_FOLDER = 80


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """The folders of one home; nothing is made before :meth:`make`."""

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
        """Held by the one ``eventr up`` of this home, or by a command that runs the servers itself."""
        return self.get_lock_path("eventr")

    @property
    def secret_key(self) -> Path:
        return self.home / "secret_key"

    @property
    def sockets(self) -> Path:
        """The folder of the sockets: HOME/run, or a short private one where that path is too long."""
        if len(os.fsencode(self.run)) <= _LONGEST_FOLDER:
            return self.run
        digest = hashlib.sha256(os.fsencode(self.home)).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"eventr-{os.getuid()}-{digest}"

    @property
    def mongodb_socket(self) -> Path:
        """The socket that mongod makes, and the name by which it is a member of its replica set."""
        return self.sockets / "mongodb.sock"

    @property
    def mongodb_ready_socket(self) -> Path:
        """A link to :attr:`mongodb_socket`, there only while that server takes writes."""
        return self.sockets / "mongodb-door.sock"

    @property
    def redis_socket(self) -> Path:
        return self.sockets / "redis.sock"

    @property
    def mongodb_uri(self) -> str:
        return _direct(self.mongodb_ready_socket)

    @property
    def mongodb_member_uri(self) -> str:
        """The address of the server itself, also before it is ready."""
        return _direct(self.mongodb_socket)

    @property
    def redis_url(self) -> str:
        return f"unix://{self.redis_socket}?db=0"

    def get_data_dir(self, name: str) -> Path:
        return self.home / "data" / name

    def get_lock_path(self, name: str) -> Path:
        """Beside the data, which is what must not be used twice: run/ may be taken away at any time."""
        return self.home / "data" / f"{name}.lock"

    def make_folders(self) -> None:
        """Make all folders, readable by this user alone.

        Raises:
            StartupError: a folder cannot be made or written to, or HOME/run is not for this user alone.
        """
        _make_private(self.home)
        _make_private(self.run)
        sockets.require_private(self.run)  # before anything is laid beside the run folder of a system
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
    # In a shared temporary folder somebody else could have made it first, to read along.
    info = folder.lstat()
    if not stat.S_ISDIR(os.stat(folder).st_mode) or info.st_uid not in (os.getuid(), 0):
        raise StartupError(f"The folder {folder} belongs to another user. Set EVENTR_HOME to another folder.")


def resolve_addresses(settings: Settings) -> Settings:
    """Return the settings with the addresses of the embedded servers where none are set.

    Pure: whether these servers run is another question, see :func:`app.embedded.servers`.
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
    # cannot be reached from elsewhere anyway.
    return f"mongodb://{quote(str(mongodb), safe='')}/?directConnection=true"
