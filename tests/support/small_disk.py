"""File systems that are really full: a small one in memory, mounted for one test."""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

Test = TypeVar("Test", bound=Callable[..., Any])


def with_mounts(test: Test) -> Test:
    """Run a test where it may mount: as it is for root, else in a user namespace of its own."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> Any:
        if os.geteuid() == 0:
            return test(*args, **kwargs)
        node = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]
        space = ["unshare", "--user", "--map-root-user", "--mount"]
        pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", node]
        ended = subprocess.run([*space, *pytest], capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return None

    return run  # type: ignore[return-value]


class SmallDisk:
    """A file system of its own, and a file that takes its space."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    @property
    def free(self) -> int:
        """Free bytes."""
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_frsize

    def leave(self, spare: int) -> None:
        """Take the space but for so many bytes."""
        with open(self._ballast, "ab") as file:
            os.posix_fallocate(file.fileno(), file.tell(), max(1, self.free - spare))

    def fill(self) -> None:
        """Take all space."""
        with open(self._ballast, "ab", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(1 << 12)):
                pass

    def clear(self) -> None:
        """Give the space back."""
        self._ballast.unlink(missing_ok=True)


@contextlib.contextmanager
def mount_small_disk(size: int) -> Iterator[SmallDisk]:
    """Mount a file system of so many bytes for the block."""
    with tempfile.TemporaryDirectory(prefix="eventr-disk-") as folder:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
        try:
            yield SmallDisk(Path(folder))
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)
