"""All settings with their effective values, for people."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from app import config
from app.config import Settings


def list_settings(settings: Settings) -> list[dict[str, Any]]:
    """Return one row per setting: name, env, value and default as text, help, secret, common."""
    shown, defaults = settings.redact_secrets(), Settings().redact_secrets()
    return [
        {
            "name": field.name,
            "env": config.build_env_name(field.name),
            "value": shown[field.name],
            "default": defaults[field.name],
            "help": field.metadata["help"],
            "secret": field.metadata["secret"],
            "common": field.metadata["common"],
        }
        for field in dataclasses.fields(settings)
    ]


def filter_settings(
    rows: Iterable[dict[str, Any]], words: str = "", *, only_changed: bool = False
) -> list[dict[str, Any]]:
    """Return the rows whose name, value or help contain all words, in upper or lower case.

    Args:
        only_changed: leave out settings that have their default.
    """
    wanted = words.casefold().split()
    return [
        row
        for row in rows
        if not (only_changed and row["value"] == row["default"])
        and all(word in f"{row['env']} {row['value']} {row['help']}".casefold() for word in wanted)
    ]
