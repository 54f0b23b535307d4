"""Eventr, a social feed reader."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flask import Flask

    from app.bootstrap.services import Services
    from app.config import Settings

# pymongo loads half of cryptography, 8 MB in every process, before it finds that PyOpenSSL, which it needs
# for OCSP, isn't installed. We only use cryptography for web push.
if importlib.util.find_spec("service_identity") is None:
    sys.modules.setdefault("pymongo.pyopenssl_context", None)  # type: ignore[arg-type]


def create_app(settings: Settings, services: Services | None = None) -> Flask:
    """Build the web application; it connects to nothing before the first request.

    Args:
        settings: the settings.
        services: ready-made services (tests, benchmarks); None: built from the settings.

    Raises:
        SettingsError: the secret key is weak.
        StartupError: the secret key can't be stored.
    """
    # Imported here, because the feed tools of the command line import this package without Flask.
    from app import application

    return application.build(settings, services)
