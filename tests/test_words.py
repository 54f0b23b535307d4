"""What people read can be translated, and is: sentences, catalogues, directions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from babel.messages.catalog import Message
from babel.messages.pofile import read_po
from jinja2 import Environment, nodes

from app import errors
from app.web.view import i18n
from tests.support.imports import REPO

TEMPLATES = REPO / "app/web/templates"
#: Names and signs that are the same in every language.
SAME = {"CSV", "Eventr", "RSS", "Atom", "OPML", "JSON", "ms", "UTC", "HTTP", "URL", "example", "org"}
#: Attributes that people read or hear.
READ_ALOUD = {"aria-label", "title", "placeholder", "alt", "label", "aria-description", "data-confirm"}
_LETTERS = re.compile(r"[^\W\d_]{2,}")
_SENTENCE = re.compile(r"[A-Z][a-z]+(?:[\s,.…!?:;’“]|$)")
_GETTEXT = {"_", "gettext", "ngettext", "pgettext", "npgettext"}
_PLACE = re.compile(r"%\(\w+\)[sd]|\{\w+\}|</?[a-z]+>")
_SIDES = re.compile(
    r"(?:^|[;{\s])((?:margin|padding|border|inset|scroll-margin|scroll-padding)-(?:left|right|top|bottom)"
    r"|left|right|float\s*:\s*(?:left|right)|text-align\s*:\s*(?:left|right)"
    r"|border-(?:top|bottom)-(?:left|right)-radius)\s*(?=[:;}]|$)"
)


class _Visible(HTMLParser):
    """Collects the text and the spoken attributes of the literal parts of a template."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._silent = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._silent = tag if tag in ("script", "style", "kbd", "code") else ""
        self.found += [value for name, value in attrs if value and name in READ_ALOUD]

    def handle_endtag(self, tag: str) -> None:
        self._silent = ""

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.found.append(data)


def untranslated(source: str) -> list[str]:
    """Return the words of a template that no translation reaches."""
    tree = Environment(extensions=["jinja2.ext.i18n"]).parse(source)
    parser = _Visible()
    parser.feed("".join(_shown(node) for output in tree.find_all(nodes.Output) for node in output.nodes))
    words = (word for text in parser.found for word in _LETTERS.findall(text))
    return [*_sentences(tree), *(word for word in words if word not in SAME)]


def _shown(node: nodes.Node) -> str:
    """Return what a part of a template puts into the page; a sign that is no letter for what is computed."""
    match node:
        case nodes.TemplateData():
            return node.data
        case nodes.Const():
            return str(node.value)
        case nodes.CondExpr():
            return _shown(node.expr1) + (_shown(node.expr2) if node.expr2 else "")
        case nodes.And() | nodes.Or():
            return _shown(node.left) + _shown(node.right)
        case nodes.Concat():
            return "".join(map(_shown, node.nodes))
    return "•"


def _sentences(tree: nodes.Node) -> Iterator[str]:
    """Yield texts within expressions that begin as a sentence does, unless they are handed to gettext."""
    for node in tree.iter_child_nodes():
        if isinstance(node, nodes.Call) and getattr(node.node, "name", "") in _GETTEXT:
            continue
        if isinstance(node, nodes.Const) and isinstance(node.value, str) and _SENTENCE.match(node.value):
            yield node.value
        yield from _sentences(node)


@pytest.mark.parametrize(
    "path", sorted(TEMPLATES.rglob("*.html")), ids=lambda path: str(path.relative_to(TEMPLATES))
)
def test_every_word_of_a_template_can_be_translated(path: Path) -> None:
    assert untranslated(path.read_text("utf-8")) == []


def test_templates_show_errors_in_the_pages_language() -> None:
    found = [
        path.name for path in TEMPLATES.rglob("*.html") if re.search(r"\.message\b", path.read_text("utf-8"))
    ]
    assert not found, "say {{ error|said }}"


@pytest.mark.parametrize(
    "source",
    [
        "<p>Hello</p>",
        '<a title="Go there">x</a>',
        "<p>{{ a }} unread</p>",
        "{% if a %}Hi{% endif %}",
        "{{ 'Read' if a else b }}",
        "{{ ui.field('a', 'Name') }}",
        "{% set x = 'Go there' %}",
    ],
)
def test_an_untranslated_word_is_found(source: str) -> None:
    assert untranslated(source)
    assert not untranslated("<p class='go'>{{ _('Hello') }} · <kbd>Esc</kbd> {{ x }}</p>")


# -- scripts
_SAID = re.compile(r'\bt\("[^"]*"|\btn\("[^"]*", "[^"]*"|^\s*//.*$|\bnew Error\("[^"]*"\)', re.M)
_UNSAID = re.compile(
    r'"[A-Z][a-z]+ [^"]*"|(?:\b(?:say|toast)\(|textContent[:=]\s*|[Tt]itle[:=]\s*)"[A-Z][^"]*"'
)


@pytest.mark.parametrize("path", sorted((REPO / "static/js").rglob("*.js")), ids=lambda path: path.name)
def test_every_word_of_a_script_can_be_translated(path: Path) -> None:
    source = re.sub(r"\s*([:=])\s*", r"\1", _SAID.sub("", path.read_text("utf-8")))
    assert not _UNSAID.findall(source)


# -- errors
_RAISED = {kind.__name__ for kind in errors.EventrError.__subclasses__()} - {
    "SettingsError", "StartupError", "FeedError"
}  # fmt: skip
#: Spoken on the command line only.
_ENGLISH = ("app/commands/", "app/embedded/", "app/cli.py", "app/adapters/redis/jobs.py")


def _raised(path: Path) -> Iterator[tuple[int, ast.expr, set[str]]]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in _RAISED
            and node.args
        ):
            yield node.lineno, node.args[0], {str(k.arg) for k in node.keywords}


def _find_hidden(source: str) -> list[str]:
    """Return the calls of gettext within formatted strings, where nothing collects their texts."""
    strings = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.JoinedStr)]
    calls = [node for one in strings for node in ast.walk(one) if isinstance(node, ast.Call)]
    return [ast.unparse(call) for call in calls if getattr(call.func, "id", "") in _GETTEXT]


@pytest.mark.parametrize("path", sorted((REPO / "app").rglob("*.py")), ids=lambda path: str(path.name))
def test_every_word_of_the_code_reaches_the_catalogues(path: Path) -> None:
    assert not _find_hidden(path.read_text())


def test_a_word_in_a_formatted_string_is_found() -> None:
    assert _find_hidden("""x = f"<h2>{escape(_('Already read'))}</h2>" """) == ["_('Already read')"]
    assert not _find_hidden("""done = _("Already read"); x = f"<h2>{done}</h2>" """)


def test_sentences_of_errors_are_literals_whose_places_are_filled() -> None:
    wrong = []
    for path in sorted((REPO / "app").rglob("*.py")):
        if str(path.relative_to(REPO)).startswith(_ENGLISH):
            continue
        for line, sentence, given in _raised(path):
            literal = isinstance(sentence, ast.Constant | ast.Name | ast.Subscript)
            text = sentence.value if isinstance(sentence, ast.Constant) else ""
            places = set(re.findall(r"%\((\w+)\)s", str(text)))
            if not literal or not places <= given:
                wrong.append(f"{path.relative_to(REPO)}:{line}")
    assert not wrong


# -- catalogues
CODES = [code for code in i18n.LANGUAGES if code != "en"]


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize(
    ("one", "other"),
    [("Following", "Subscriptions"), ("Discover", "Overview"), ("Notification settings", "Notifications")],
)
def test_two_places_have_two_names(code: str, one: str, other: str) -> None:
    with (i18n.FOLDER / f"{code}.po").open("rb") as file:
        words = read_po(file, locale=code)
    assert str(words[one].string) != str(words[other].string)


@pytest.mark.parametrize("code", CODES)
def test_a_catalogue_is_complete_and_keeps_every_place(code: str) -> None:
    with (i18n.FOLDER / "messages.pot").open("rb") as file:
        template = read_po(file)
    with (i18n.FOLDER / f"{code}.po").open("rb") as file:
        catalogue = read_po(file, locale=code)
    wrong = []
    for message in template:
        if not message.id:
            continue
        found = catalogue.get(message.id[0] if message.pluralizable else message.id, message.context)
        strings = _strings(found)
        if not all(strings) or (message.pluralizable and len(strings) != catalogue.num_plurals):
            wrong.append(f"not translated: {message.id}")
        wrong += [f"places differ: {text}" for text in strings if text and not _same_places(message, text)]
    assert not wrong, "\n".join(wrong)


def _strings(message: Message | None) -> tuple[str, ...]:
    if message is None:
        return ("",)
    return message.string if isinstance(message.string, tuple) else (message.string,)


def _same_places(message: Message, text: str) -> bool:
    """Compare the places; a form for one or two may say the number in a word."""
    wanted = set(_PLACE.findall(message.id[-1] if message.pluralizable else message.id))
    missing = wanted - set(_PLACE.findall(text))
    return not set(_PLACE.findall(text)) - wanted and (
        not missing or (message.pluralizable and missing <= {"%(num)s", "{n}"})
    )


# -- directions
#: Four values in a row: top, right, bottom, left.
_FOUR = re.compile(r"(?:^|[;{\s])(?:padding|margin|inset|border-width)\s*:\s*([^;{}]+)")
_VALUE = re.compile(r"[\w.%-]+\([^()]*(?:\([^()]*\)[^()]*)*\)|\S+")


def physical(css: str) -> list[str]:
    """Return what of a stylesheet names a side of the screen instead of one of the text."""
    css = re.sub(r"/\*.*?\*/", "", css, flags=re.S)
    fours = [values for match in _FOUR.finditer(css) if len(values := _VALUE.findall(match[1])) == 4]
    return [match[1] for match in _SIDES.finditer(css)] + [" ".join(v) for v in fours if v[1] != v[3]]


@pytest.mark.parametrize("path", sorted((REPO / "static/css").rglob("*.css")), ids=lambda p: p.name)
def test_styles_follow_the_direction_of_the_text(path: Path) -> None:
    assert physical(path.read_text("utf-8")) == []


@pytest.mark.parametrize(
    "css",
    [
        "a { margin-left: 1px }",
        "a{left:0}",
        "a { float: right; }",
        "a{text-align:left}",
        "a { padding: 0 var(--x) 0 1px; }",
    ],
)
def test_a_side_of_the_screen_is_found(css: str) -> None:
    assert physical(css)
    assert not physical("a { margin-inline-start: 1px; inset-block-start: 0; margin: 0 1px 2px 1px }")


_MIRRORED = re.compile(r"(?:\[dir\b|:dir\(|:lang\(|\[lang\b)[^{}]*\{([^{}]*)")
_COLOURING = re.compile(
    r"\b(?:color|background|fill|stroke|opacity|filter|mix-blend-mode|shadow|border|outline)\b"
)


def coloured(css: str) -> list[str]:
    """Return what of a stylesheet changes a colour with the direction or language."""
    return [body.strip() for body in _MIRRORED.findall(css) if _COLOURING.search(body)]


def test_colours_know_no_direction() -> None:
    """So that contrast need be looked at in one direction only (tests/browser/test_screens.py)."""
    for path in (REPO / "static/css").rglob("*.css"):
        assert coloured(path.read_text("utf-8")) == [], path
    assert coloured('[dir="rtl"] a, b { scale: -1 1; background-color: red }')
    assert not coloured('a { color: red } [dir="rtl"] a { text-align: end; } b { color: red }')


#: What a setting, page or column is called elsewhere, which is what people look for here.
USUAL = (
    "Notifications",
    "Notification settings",
    "Theme",
    "Font",
    "Text size",
    "Time format",
    "Undo history",
    "Expires",
    "Connection test",
    "Most subscribers first",
    "Sessions",
    "Account",
    "Remove",
)
#: Names that only Eventr had for the same. They may come back in texts, but not as names.
ODD = (
    "What I am told",
    "Of what I am told",
    "Letters of entries",
    "With serifs",
    "Easy to tell apart",
    "Colours",
    "What you can take back",
    "Twenty hours back, four ahead",
    "It ends after",
    "lets through",
    "Take out",
    "Readers here",
    "all of it",
)


def test_things_have_the_names_that_people_know() -> None:
    with (i18n.FOLDER / "messages.pot").open("rb") as file:
        known = {text for message in read_po(file) for text in _texts(message)}
    assert set(USUAL) <= known
    short = [text for text in known if len(text.split()) <= 6]
    assert not [text for text in short for odd in ODD if odd.casefold() in text.casefold()]


def _texts(message: Message) -> tuple[str, ...]:
    return (message.id,) if isinstance(message.id, str) else tuple(message.id)
