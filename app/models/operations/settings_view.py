"""All settings with their effective values, for people."""

from __future__ import annotations

import dataclasses
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
