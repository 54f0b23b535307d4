"""Eventr, a social feed reader."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flask import Flask

    from app.bootstrap import Services
    from app.config import Settings

# pymongo loads half of cryptography, 8 MB in every process, before it finds that what it wanted that for
# (OCSP by PyOpenSSL) is not installed. Our own use of it is web push alone.
if importlib.util.find_spec("service_identity") is None:
    sys.modules.setdefault("pymongo.pyopenssl_context", None)  # type: ignore[arg-type]


def create_app(settings: Settings, services: Services | None = None) -> Flask:
    """Build the web application; it connects to nothing before the first request.

    Args:
        services: ready-made ones (tests, benchmarks); else built from the settings.

    Raises:
        SettingsError: the secret key is weak.
        StartupError: the secret key cannot be kept.
    """
    # Imported here: the feed tools of the command line import this package too and need no Flask.
    from flask import Flask

    from app import bootstrap
    from app.web import (
        assets,
        compress,
        context,
        errors,
        headers,
        hosts,
        i18n,
        keyfile,
        pages,
        render,
        sessions,
    )
    from app.web.api import fever, greader, programs

    app = Flask(__name__, static_folder=None, template_folder="web/templates")
    base_url = settings.own_origin
    app.extensions["eventr"] = context.Web(
        settings=settings,
        services=services or bootstrap.build(settings),
        assets=assets.load(),
        secret_key=keyfile.secret_key(settings),
        base_url=base_url,
    )
    # After-request functions run in reverse: compression must see the final headers and body.
    compress.install(app)
    headers.install(app, base_url)
    hosts.install(app, settings)
    sessions.install(app)
    render.install(app)
    i18n.install(app)
    errors.install(app)
    programs.install(app)
    for blueprint in (*pages.BLUEPRINTS, *greader.blueprints(), fever.blueprint()):
        app.register_blueprint(blueprint)
    return app
