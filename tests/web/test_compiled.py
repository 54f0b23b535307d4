"""Templates are compiled once per process, not once per application."""

from __future__ import annotations

from pathlib import Path

from flask import Flask

from app.web.view import compiled, i18n, render


def _application(folder: str | Path = compiled.FOLDER) -> Flask:
    app = Flask("app", static_folder=None, template_folder=str(folder))
    render.install(app)
    i18n.install(app)
    compiled.install(app)
    return app


def test_all_templates_are_compiled_before_the_first_page() -> None:
    assert compiled.compile_templates("app") > 50
    for name in ("pages/login.html", "pages/read.html", "base.html"):
        first, second = (_application().jinja_env.get_template(name).root_render_func for _ in range(2))
        assert first.__code__ is second.__code__, f"{name} was compiled again"


def test_a_changed_template_is_compiled_again(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    texts = []
    for text in ("before", "after"):
        page.write_text(text)
        texts.append(_application(tmp_path).jinja_env.get_template("page.html").render())
    assert texts == ["before", "after"]
