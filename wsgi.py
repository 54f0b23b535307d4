"""The application for WSGI servers and measurements: ``wsgi:app``. Settings come from the environment.

To serve users, run ``eventr web``: gunicorn with the worker and options for slow clients, odd headers and
file permissions (security.md W17). ``gunicorn wsgi:app`` has none of these.
"""

from __future__ import annotations

from app import create_app, logs
from app.commands.schema import require_schema
from app.commands.secret import ensure_secret_key
from app.config import Settings
from app.embedded import resolve_addresses

settings = Settings.from_env()
logs.configure(settings.log_level, settings.log_format)
settings = ensure_secret_key(resolve_addresses(settings))
require_schema(settings)
app = create_app(settings)
