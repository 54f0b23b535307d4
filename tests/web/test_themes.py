"""The color themes: every text can be read on every ground that it may stand on (WCAG 1.4.3, 1.4.11)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.models.accounts.preferences import Preferences, list_choices
from app.web.view.typography import COLORS, THEMES

TOKENS = (Path(__file__).resolve().parents[2] / "static/css/tokens.css").read_text()
GROUNDS = ("bg", "surface", "sunken", "hover", "accent-soft")
#: Texts, and the grounds on which the style sheets use them.
TEXTS = {
    **dict.fromkeys(("text", "text-2", "read", "accent"), GROUNDS),
    **dict.fromkeys(("danger", "ok", "share", "star"), GROUNDS[:4]),
    "warn": (*GROUNDS[:4], "warn-soft"),
    **dict.fromkeys(("code-word", "code-text", "code-name", "code-number", "code-note"), ("sunken",)),
}
ALSO = (("text", "warn-soft"), ("text", "danger-soft"), ("danger", "danger-soft"), ("on-accent", "accent"))


def _read_theme(theme: str) -> dict[str, str]:
    """Return the colors of a theme: those of the light or dark one, and its own in their place."""
    dark = theme in ("dark", "black")
    pairs = re.findall(r"--([\w-]+): light-dark\((#\w+), (#\w+)\)", TOKENS)
    found = {name: pair[dark] for name, *pair in pairs}
    own = re.search(rf':root\[data-theme="{theme}"\] {{(.*?)}}', TOKENS, re.S)
    return found | dict(re.findall(r"--([\w-]+): (#\w{6});", own[1] if own else ""))


def _contrast(one: str, other: str) -> float:
    lights = []
    for color in (one, other):
        parts = (int(color[at : at + 2], 16) / 255 for at in (1, 3, 5))
        red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        lights.append(0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05)
    return max(lights) / min(lights)


@pytest.mark.parametrize("theme", [name for name in THEMES if name != "auto"])
def test_every_text_of_a_theme_can_be_read(theme: str) -> None:
    colors = _read_theme(theme)
    pairs = [(text, ground) for text, grounds in TEXTS.items() for ground in grounds] + list(ALSO)
    faint = {
        f"{text} on {ground}": round(found, 2)
        for text, ground in pairs
        if (found := _contrast(colors[text], colors[ground])) < 4.5
    }
    assert not faint
    weak = {
        ground: found for ground in GROUNDS[:3] if (found := _contrast(colors["control"], colors[ground])) < 3
    }
    assert not weak


def test_bars_around_a_page_have_the_color_of_its_ground() -> None:
    assert {theme: _read_theme(theme)["bg"] for theme in COLORS} == COLORS
    assert {*COLORS, "auto"} == {*THEMES}


def test_a_theme_has_only_colors_that_every_theme_has() -> None:
    known = set(_read_theme("light"))
    for theme in ("sepia", "black"):
        assert set(_read_theme(theme)) == known
        assert _read_theme(theme) != _read_theme("dark" if theme == "black" else "light")


@pytest.mark.parametrize("name", ["font", "line_height", "text_width", "text_size"])
def test_every_choice_but_the_default_has_its_rule(name: str) -> None:
    attribute = {"line_height": "line", "text_width": "measure", "text_size": "text-size"}.get(name, name)
    values = [str(size) for size in range(16, 25)] if name == "text_size" else list_choices(name)
    ruled = set(re.findall(rf':root\[data-{attribute}="(\w+)"\]', TOKENS))
    assert ruled == set(values) - {str(getattr(Preferences(), name))}
