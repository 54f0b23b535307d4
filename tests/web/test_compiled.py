"""Templates are compiled once per process, not once per application."""

from __future__ import annotations

from pathlib import Path

import pytest
from flask import Flask

from app.runtime import translations
from app.web.view import compiled, i18n, render
from app.web.view.templates import LanguageTemplates


def _application(folder: str | Path = compiled.FOLDER) -> Flask:
    app = Flask("app", static_folder=None, template_folder=str(folder))
    render.install(app, tree_cache=0)
    i18n.install(app)
    compiled.install(app)
    return app


@pytest.mark.parametrize("language", translations.LANGUAGES)
@pytest.mark.parametrize("name", [*compiled.FIRST_PAGES, "app.html", "parts/stream.html"])
def test_templates_are_compiled_before_the_first_page(name: str, language: str) -> None:
    assert compiled.compile_templates("app") >= 4 * len(translations.LANGUAGES)
    stored = dict(compiled._compiled._codes)
    LanguageTemplates(_application().jinja_env).load(name, language)
    assert compiled._compiled._codes.keys() == stored.keys(), f"{name} was compiled again"


def test_applications_share_compiled_templates() -> None:
    loaded = [LanguageTemplates(_application().jinja_env).load("base.html", "ru") for _ in range(2)]
    assert loaded[0].root_render_func.__code__ is loaded[1].root_render_func.__code__


def test_a_changed_template_is_compiled_again(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    texts = []
    for text in ("before", "after"):
        page.write_text(text)
        texts.append(_application(tmp_path).jinja_env.get_template("page.html").render())
    assert texts == ["before", "after"]
