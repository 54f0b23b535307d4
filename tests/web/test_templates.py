"""Constant texts in templates are translated once per language, as if they were looked up each time."""

from __future__ import annotations

import pytest
from babel.support import Translations
from flask import Flask
from jinja2 import DictLoader, Template

from app.runtime import translations
from app.web.view import i18n
from app.web.view.templates import LanguageTemplates

SOURCES = (
    "{{ _('Star') }}",
    "<a title=\"{{ _('Star') }}\">{{ gettext('Star') }}</a>",
    "{{ _('Read at %(site)s', site=site) }}",
    "{{ _('Read at %(site)s', site='<' ~ site) }}",
    "{% set words = {'star': _('Star')} %}{{ words.star }}{{ words['star']|upper }}",
    "{{ ngettext('%(num)s unread', '%(num)s unread', n) }}",
    "{{ _(word) }}",
    "{{ _('Star' if n else 'Tag') }}",
    "{% trans %}Star{% endtrans %}{% trans site=site %}Read at {{ site }}{% endtrans %}",
    "{{ _('Only %(n)s%% left', n=n) }}{{ _('100%%') }}",
    "{% macro star(words=_('Star')) %}{{ words }}{% endmacro %}{{ star() }}",
    "{% for _ in (n,) %}{{ _ }}{% endfor %}",
    "{% autoescape false %}{{ _('Read at %(site)s', site=site) }}{% endautoescape %}",
    "{{ _('Press <kbd>%(key)s</kbd> on any entry, or choose “Share” above its text.', key=site) }}",
)


def _compile(app: Flask, source: str, language: str) -> Template:
    base = app.jinja_env.overlay(loader=DictLoader({"a.html": source}))
    return LanguageTemplates(base).load("a.html", language)


@pytest.mark.parametrize("language", [*translations.LANGUAGES, translations.PSEUDO])
@pytest.mark.parametrize("source", SOURCES)
def test_a_constant_text_reads_as_if_looked_up_when_rendered(app: Flask, language: str, source: str) -> None:
    values = {"site": "<b>example.org</b> 50%", "word": "Star", "n": 3}
    with app.test_request_context(headers={"Cookie": f"{i18n.COOKIE}={language}"}):
        looked_up = app.jinja_env.from_string(source).render(values)
        assert _compile(app, source, language).render(values) == looked_up
        assert looked_up


def test_a_constant_text_is_looked_up_once(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    class Words(Translations):
        def ugettext(self, message: str) -> str:
            seen.append(message)
            return message.upper()

    monkeypatch.setattr(translations, "load_translations", lambda code: Words())
    template = _compile(app, "{{ _('Star') }}{{ _('Tag', n=n) }}", "de")
    with app.test_request_context():
        assert [template.render(n=n) for n in (1, 2)] == ["STARTAG", "STARTAG"]
    assert seen == ["Star", "Tag"]


def test_each_visitor_gets_the_page_of_their_own_language(app: Flask) -> None:
    client = app.test_client()
    headings = {"en": "Log in", "de": "Anmelden", "ru": "Войти"}
    for code in ("en", "de", "ru", "en", "ru", "de"):
        client.set_cookie(i18n.COOKIE, code)
        page = client.get("/login").text
        assert f'<html lang="{code}"' in page
        found = {other for other, words in headings.items() if f"<h1>{words}</h1>" in page}
        assert found == {code}


def test_stored_bytecode_belongs_to_one_version_of_a_catalog(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    for said in ("Stern", "Sternchen"):
        words = Translations()
        words._catalog = {"Star": said}
        monkeypatch.setattr(translations, "load_translations", {"de": words}.get)
        assert _compile(app, "{{ _('Star') }}", "de").render() == said
