"""Compiled templates, shared by all applications of a process and by its copies.

Compiling the templates of a page takes 0.2 s of CPU, so gunicorn's master does it before it forks.
"""

from __future__ import annotations

from types import CodeType

from flask import Flask
from jinja2 import BytecodeCache
from jinja2.bccache import Bucket

from app.web.view import i18n, render

#: The folder of the templates below the package.
FOLDER = "web/templates"


class CompiledTemplates(BytecodeCache):
    """Keeps the code of templates in memory, by name and by the checksum of their text."""

    def __init__(self) -> None:
        self._codes: dict[tuple[str, str], CodeType] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Use the code of a template, if there is any."""
        bucket.code = self._codes.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep the code of a template."""
        if bucket.code is not None:
            self._codes[bucket.key, bucket.checksum] = bucket.code


_compiled = CompiledTemplates()


def install(app: Flask) -> None:
    """Let the templates of ``app`` be compiled only once per process."""
    app.jinja_env.bytecode_cache = _compiled


def compile_templates(package: str) -> int:
    """Compile all templates of the package that contains the web application; return their number."""
    app = Flask(package, static_folder=None, template_folder=FOLDER)
    render.install(app)
    i18n.install(app)
    install(app)
    found = app.jinja_env.list_templates()
    for name in found:
        app.jinja_env.get_template(name)
    return len(found)
