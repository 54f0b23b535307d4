"""The secret key of a one-machine set-up: created at the first start, stored in HOME (security.md W19)."""

from __future__ import annotations

import dataclasses
import os
import secrets
from pathlib import Path

from app.config import Settings
from app.embedded.layout import Layout
from app.errors import SettingsError, StartupError
from app.web.security import keyfile


def ensure_secret_key(settings: Settings) -> Settings:
    """Return the settings with a secret key: the configured one, else the one in HOME/secret_key.

    Raises:
        SettingsError: the key is weak, or others can read its file.
        StartupError: the file can't be read or created.
    """
    if not settings.secret_key:
        layout = Layout.from_settings(settings)
        layout.make_folders()
        settings = dataclasses.replace(settings, secret_key=_read_or_make(layout.secret_key))
    keyfile.get_secret_key(settings)
    return settings


def _read_or_make(path: Path) -> str:
    try:
        if not path.exists():
            _make(path)
        if path.stat().st_mode & 0o077:
            raise SettingsError(f"Other users can read {path}. Run chmod 600 on the file, or remove it.")
        key = path.read_text().strip()
    except OSError as e:
        raise StartupError(f"Can't read or create the secret key {path} ({e.strerror}).") from e
    if not key:
        raise SettingsError(
            f"{path} is empty. Remove the file, and Eventr will create a new key at the next start."
        )
    return key


def _make(path: Path) -> None:
    # Written to a draft and then linked: two processes that start at once get the same key, and
    # a kill in between never leaves half a key.
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(48) + "\n")
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)
    except FileExistsError:
        pass  # the other process was first, and its key counts
    finally:
        draft.unlink()
