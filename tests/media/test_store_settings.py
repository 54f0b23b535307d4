"""EVENTR_MEDIA_STORES: what addresses mean, and that their passwords are shown nowhere."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from app.adapters.media.building import build_stores
from app.commands.doctor import check_media_stores
from app.commands.settings import render_markdown
from app.config import Settings
from app.errors import MediaStoreError, SettingsError
from app.models.media.blob import build_key
from app.models.media.store_address import StoreKind, parse_store
from app.models.operations.check_result import Severity
from app.models.operations.settings_view import list_settings
from tests.support.media_servers import DavServer, S3Server
from tests.support.up import free_port

CANARY = "canary-7f3a"


def test_the_parts_of_an_address() -> None:
    disk = parse_store("disk:var/media")
    assert (disk.kind, disk.name, disk.folder) == (StoreKind.DISK, "disk:var/media", Path("var/media"))
    dav = parse_store("dav:https://u%40x:p%2C%3A@dav.example:8443/a/b/")
    assert (dav.kind, dav.url) == (StoreKind.DAV, "https://dav.example:8443/a/b")
    assert (dav.user, dav.password, dav.name) == ("u@x", "p,:", "dav:dav.example:8443/a/b")
    s3 = parse_store("s3:https://key:s%2Fc@s3.example/bucket/a/b?region=eu-1")
    assert (s3.kind, s3.url, s3.bucket, s3.prefix) == (StoreKind.S3, "https://s3.example", "bucket", "a/b/")
    assert (s3.user, s3.password, s3.region, s3.name) == ("key", "s/c", "eu-1", "s3:s3.example/bucket/a/b")
    assert parse_store("s3:http://127.0.0.1:9/b").prefix == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "disk",
        "disk:",
        "disk:a\nb",
        "ftp:ftp://h/x",
        f"dav:ftp://u:{CANARY}@h/x",
        f"dav:https://u:{CANARY}@/x",
        f"dav:https://u:{CANARY}@h:0/x",
        f"dav:https://u:{CANARY}@h:x/x",
        f"dav:https://u:{CANARY}@h/x?y=1",
        f"dav:https://u:{CANARY}@h/x#y",
        f"s3:https://u:{CANARY}@h",
        f"s3:https://u:{CANARY}@h/b?zone=1",
        f"https://u:{CANARY}@h/x",
    ],
)
def test_an_invalid_address_is_refused_without_its_password(text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings(media_stores=(text,))
    assert CANARY not in str(caught.value)
    assert "EVENTR_MEDIA_STORES must contain" in caught.value.message


def test_stores_are_different_and_as_many_as_the_copies() -> None:
    with pytest.raises(SettingsError):
        Settings(media_stores=("dav:https://a:b@h/x", "dav:https://c:d@h/x/"))
    with pytest.raises(SettingsError, match="EVENTR_MEDIA_COPIES"):
        Settings(media_stores=("disk:a",), media_copies=2)
    assert Settings(media_stores=("disk:a", "disk:b"), media_copies=2).media_copies == 2


def test_V14_the_passwords_of_stores_are_shown_and_logged_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    address = f"dav:http://eventr:{CANARY}@127.0.0.1:{free_port()}/media"
    settings = Settings.from_env({"EVENTR_MEDIA_STORES": f"{address}, disk:{tmp_path}/files"})
    assert settings.media_stores == (address, f"disk:{tmp_path}/files")
    assert CANARY not in str(list_settings(settings)) + str(settings.redact_secrets()) + render_markdown()
    assert CANARY not in repr(parse_store(address))
    stores = build_stores(dataclasses.replace(settings, media_copies=2))
    said = ""
    for _ in range(4):
        with pytest.raises(MediaStoreError) as caught:
            stores.put(build_key(os.urandom(32), 1, "w640"), b"x", 1)
        said += f"{caught.value!r} {caught.value.__cause__!r} {caught.value.ids}"
    said += repr(stores.describe()) + repr(stores.names) + caplog.text
    said += repr(list(check_media_stores(settings)))
    assert "media_store_away" in caplog.text
    assert CANARY not in said


def test_doctor_writes_reads_and_deletes_in_each_store(tmp_path: Path) -> None:
    with DavServer(tmp_path / "dav") as dav, S3Server() as s3:
        stores = (f"disk:{tmp_path}/disk", dav.setting(), s3.setting())
        found = list(check_media_stores(Settings(media_stores=stores, media_store_timeout=30)))
        assert [(each.check, each.word) for each in found] == [("media", Severity.OK)] * 3
        assert not [path for path in tmp_path.rglob("*") if path.is_file()], "nothing stays behind"
    wrong = (f"disk:{tmp_path}/none/disk", dav.setting(password="wrong"))
    found = list(check_media_stores(Settings(media_stores=wrong)))
    assert [each.word for each in found] == [Severity.FAIL] * 2
    assert "the folder is missing" in found[0].text
    assert f"disk:{tmp_path}/none/disk" in found[0].text


def test_doctor_needs_nothing_for_the_data_folder(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", disk_min_free=0)
    (found,) = check_media_stores(settings)
    assert found.word is Severity.OK
    assert not settings.home.exists()
    (settings.home / "media").mkdir(parents=True)
    (found,) = check_media_stores(settings)
    assert (found.word, found.text) == (Severity.OK, "disk works.")
