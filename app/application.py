"""Assembly of the web application; outside the package's top level, whose feed tools don't need Flask."""

from __future__ import annotations

from flask import Flask

from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.web import context, errors, pages, public_copies, request_scope
from app.web.api import fever, greader, programs
from app.web.assets import assets, compress
from app.web.security import headers, hosts, kept_pages, keyfile, sessions
from app.web.view import compiled, i18n, render


def build(settings: Settings, services: Services | None = None) -> Flask:
    """Return the web application, see :func:`app.create_app`."""
    app = Flask(__package__, static_folder=None, template_folder=compiled.FOLDER)
    base_url = settings.own_origin
    app.extensions["eventr"] = context.Web(
        settings=settings,
        services=services or bootstrap.build(settings),
        assets=assets.load_assets(),
        secret_key=keyfile.get_secret_key(settings),
        base_url=base_url,
    )
    # After-request functions run in reverse: compression must see the final headers and body.
    compress.install(app)
    headers.install(app, base_url)
    hosts.install(app, settings)
    sessions.install(app)
    kept_pages.install(app)
    render.install(app, settings.tree_cache)
    i18n.install(app)
    compiled.install(app)
    errors.install(app)
    programs.install(app)
    public_copies.install(app)
    request_scope.install(app)
    for blueprint in (*pages.BLUEPRINTS, *greader.build_blueprints(), fever.build_blueprint()):
        app.register_blueprint(blueprint)
    return app
