"""Compiled templates, shared by all applications of a process and by its copies.

Compiling the templates of a page takes 0.2 s of CPU per language, so gunicorn's master does it
before it forks.
"""

from __future__ import annotations

from types import CodeType

from flask import Flask
from jinja2 import BytecodeCache, Environment, meta
from jinja2.bccache import Bucket

from app.runtime import translations
from app.web.view import i18n, render, templates

#: The folder of the templates below the package.
FOLDER = "web/templates"
#: The pages that people see first after a start.
FIRST_PAGES = ("pages/login.html", "pages/read.html")


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
    """Compile the templates of the first pages of the package's web application; return their number.

    The others follow when they are used: all of them would take 3 s and 20 MB.
    """
    app = Flask(package, static_folder=None, template_folder=FOLDER)
    render.install(app, tree_cache=0)  # it renders nothing
    i18n.install(app)
    install(app)
    loaded = templates.LanguageTemplates(app.jinja_env)
    needed = set[str]().union(*(_find_needed(app.jinja_env, name) for name in FIRST_PAGES))
    wanted = [(name, language) for language in translations.LANGUAGES for name in needed]
    for name, language in wanted:
        loaded.load(name, language)
    return len(wanted)


def _find_needed(env: Environment, name: str) -> set[str]:
    """Return a template's name and those of all templates that it extends, imports or includes."""
    assert env.loader is not None  # noqa: S101 — Flask sets it
    found, left = set[str](), [name]
    while left:
        found.add(name := left.pop())
        source = env.loader.get_source(env, name)[0]
        left += {other for other in meta.find_referenced_templates(env.parse(source)) if other} - found
    return found
