"""The disk store: whole files or none, whatever is killed, full or broken (security.md U09, F09, F10)."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from app.adapters.media.disk import DiskStore
from app.errors import MediaStoreError, NoSpaceError, NotFoundError
from app.models.media.blob import build_key
from app.ports import MediaStore
from app.runtime.pieces import read_piece
from tests.support.imports import REPO
from tests.support.small_disk import mount_small_disk, with_mounts

SHARD = "ab"
KEY = build_key(bytes.fromhex(SHARD + "01" * 31), 7, "w640")
BODY = bytes(range(256)) * 1024
_PUT = """
import io, sys
from pathlib import Path
from app.adapters.media.disk import DiskStore
body = bytes(range(256)) * 1024
DiskStore(Path(sys.argv[1]), "disk").put(sys.argv[2], io.BytesIO(body), len(body))
"""
_CALLS = "write,fdatasync,fsync,rename,renameat,renameat2"


def _read(store: MediaStore, key: str) -> bytes:
    return b"".join(read_piece(store.open(key)))


def _trace(folder: Path, log: Path, *options: str) -> int:
    command = ["strace", "-f", "-y", "-o", str(log), "-e", f"trace={_CALLS}", *options]
    command += [sys.executable, "-c", _PUT, str(folder), KEY]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}  # that would write, flush and rename, too
    return subprocess.run(command, cwd=REPO, env=environment, capture_output=True, check=False).returncode


@pytest.mark.parametrize(
    ("call", "number"),
    [
        ("write", 1),
        ("fdatasync", 1),
        ("rename,renameat,renameat2", 1),
        ("fsync", 1),
        ("fsync", 2),
        ("fsync", 3),
    ],
)
def test_U09_a_put_that_is_killed_leaves_a_whole_file_or_none(tmp_path: Path, call: str, number: int) -> None:
    folder = tmp_path / "files"
    killed = _trace(folder, tmp_path / "log", "-e", f"inject={call}:signal=SIGKILL:when={number}")
    assert killed in (-9, 137), "the call was made"
    store = DiskStore(folder, "disk")
    stored = [file for file in store.list_files(SHARD) if file.key == KEY]
    assert len(stored) == (1 if (call, number) == ("fsync", 3) else 0)
    if stored:
        assert _read(store, KEY) == BODY
    else:
        with pytest.raises(NotFoundError):
            store.open(KEY)
    store.put(KEY, io.BytesIO(BODY), len(BODY))
    assert _read(store, KEY) == BODY
    for file in store.list_files(SHARD):
        store.delete(file.key)  # what was left behind has a key of its own
    assert not list((folder / SHARD).iterdir())


def test_U09_a_file_is_flushed_before_it_gets_its_name_and_its_folder_after(tmp_path: Path) -> None:
    assert _trace(tmp_path / "files", tmp_path / "log") == 0
    calls = (tmp_path / "log").read_text().splitlines()
    shard = re.escape(str(tmp_path / "files" / SHARD))
    steps = (
        rf"write\(\d+<{shard}/.*tmp>",
        rf"fdatasync\(\d+<{shard}/.*tmp>",
        r"rename\w*\(",
        rf"fsync\(\d+<{shard}>",
    )
    places = [max((n for n, line in enumerate(calls) if re.search(step, line)), default=-1) for step in steps]
    assert -1 not in places, calls
    assert places == sorted(places), calls
    created = [
        n for n, line in enumerate(calls) if re.search(rf"fsync\(\d+<{re.escape(str(tmp_path))}>", line)
    ]
    assert created, "the folder itself is durable, too"


@pytest.mark.parametrize("call", ["fdatasync", "fsync"])
def test_F10_a_put_whose_disk_fails_to_flush_is_not_acknowledged(tmp_path: Path, call: str) -> None:
    folder = tmp_path / "files"
    DiskStore(folder, "disk").put(KEY.replace("w640", "w1280"), io.BytesIO(b"x"), 1)
    assert _trace(folder, tmp_path / "log", "-e", f"inject={call}:error=EIO") == 1
    names = [path.name for path in (folder / SHARD).iterdir()]
    assert not [name for name in names if name.endswith(".tmp")]


@with_mounts
def test_F09_a_full_disk_keeps_what_it_has_and_recovers_alone() -> None:
    with mount_small_disk(4 << 20) as disk:
        store = DiskStore(disk.folder / "files", "disk")
        other = KEY.replace("w640", "w1280")
        store.put(other, io.BytesIO(BODY), len(BODY))
        disk.leave(len(BODY) // 2)
        with pytest.raises(NoSpaceError):
            store.put(KEY, io.BytesIO(BODY), len(BODY))
        assert [file.key for file in store.list_files(SHARD)] == [other], "no torn file, no rest of it"
        assert _read(store, other) == BODY
        disk.clear()
        store.put(KEY, io.BytesIO(BODY), len(BODY))
        assert _read(store, KEY) == BODY


@with_mounts
def test_F09_nothing_is_stored_below_the_free_space_that_must_remain() -> None:
    with mount_small_disk(4 << 20) as disk:
        store = DiskStore(disk.folder / "files", "disk", min_free=50)
        store.put(KEY, io.BytesIO(BODY), len(BODY))
        disk.leave(1 << 20)
        with pytest.raises(NoSpaceError):
            store.put(KEY, io.BytesIO(BODY), len(BODY))
        assert _read(store, KEY) == BODY
        space = store.measure_space()
        assert space is not None
        assert space.free <= 1 << 20 < space.total


@pytest.mark.parametrize(
    "key",
    [
        "../../etc/passwd",
        f"{KEY}/../../../x",
        f"/{KEY}",
        KEY.upper(),
        KEY.replace("w640", ""),
        KEY.replace("w640", ".."),
        KEY.replace("w640", "a\0b"),
        f"{KEY}\n",
    ],
)
def test_only_keys_become_paths(tmp_path: Path, key: str) -> None:
    store = DiskStore(tmp_path / "files", "disk")
    with pytest.raises(ValueError):
        store.put(key, io.BytesIO(b"x"), 1)
    with pytest.raises(ValueError):
        store.open(key)
    with pytest.raises(ValueError):
        store.delete(key)
    with pytest.raises(ValueError):
        list(store.list_files(key[:5]))


def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    store = DiskStore(tmp_path / "files", "disk")
    store.put(KEY, io.BytesIO(BODY), len(BODY))
    (path,) = (tmp_path / "files" / SHARD).iterdir()
    path.unlink()
    (tmp_path / "secret").write_text("canary")
    path.symlink_to(tmp_path / "secret")
    with pytest.raises(MediaStoreError):
        store.open(KEY)
    store.put(KEY, io.BytesIO(BODY), len(BODY))
    assert _read(store, KEY) == BODY
    assert (tmp_path / "secret").read_text() == "canary"


def test_a_folder_whose_disk_is_not_mounted_is_away_and_not_empty(tmp_path: Path) -> None:
    store = DiskStore(tmp_path / "mount" / "eventr", "disk")
    for use in (
        lambda: store.put(KEY, io.BytesIO(BODY), len(BODY)),
        lambda: store.open(KEY),
        lambda: store.delete(KEY),
    ):
        with pytest.raises(MediaStoreError):
            use()
    assert not (tmp_path / "mount").exists()


def test_files_for_a_proxy_are_readable_by_its_group_and_no_others(tmp_path: Path) -> None:
    for is_served, mode in ((True, 0o640), (False, 0o600)):
        folder = tmp_path / str(is_served)
        store = DiskStore(folder, "disk", is_served=is_served)
        store.put(KEY, io.BytesIO(BODY), len(BODY))
        (path,) = (folder / SHARD).iterdir()
        assert path.stat().st_mode & 0o777 == mode
        piece = store.open(KEY)
        assert b"".join(read_piece(piece)) == BODY
        assert piece.path == (f"{SHARD}/{path.name}" if is_served else None)
