"""The application for gunicorn: ``gunicorn wsgi:app``. Settings come from the environment."""

from __future__ import annotations

from app import create_app, logs
from app.commands.secret import with_secret_key
from app.config import Settings
from app.embedded import resolved

settings = Settings.from_env()
logs.configure(settings.log_level, settings.log_format)
app = create_app(with_secret_key(resolved(settings)))
