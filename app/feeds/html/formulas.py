"""Formulas: MathML by an allow-list of MathML Core, with the formula as text for lists, searches and apps.

A formula is written anew from its tree: only elements of MathML, which contain only such elements, or only
text. In such markup, the HTML parser finds no HTML (HTML standard §13.2.6.5), so it means the same wherever
it is parsed. The sanitizer never sees formulas: it works on :func:`render_placeholder` instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from app.feeds.html import tag_patterns
from app.feeds.html.element_tree import Element, escape_text, escape_value, list_names, parse_element

#: The element that stands for a formula while the text around it is sanitized.
PLACEHOLDER = "eventr-formula"
MAX_FORMULAS = 2000
#: Characters of a formula as text.
MAX_ALTERNATIVE = 1000

LEAVES = list_names("mi mn mo ms mtext")
ELEMENTS = LEAVES | list_names(
    "math menclose merror mfrac mmultiscripts mover mpadded mphantom mprescripts mroot mrow mspace msqrt "
    "mstyle msub msubsup msup mtable mtd mtr munder munderover none"
)
#: Removed with their content; other unknown elements lose only their tags.
_DROPPED = list_names("annotation annotation-xml script style mglyph malignmark maligngroup")
ATTRIBUTES = list_names(
    "accent accentunder columnalign columnlines columnspan depth dir display displaystyle fence form frame "
    "height largeop linethickness lspace mathvariant maxsize minsize movablelimits notation rowalign "
    "rowlines rowspan rspace scriptlevel separator stretchy symmetric voffset width"
)
_VALUE = re.compile(r"[A-Za-z0-9 .%+-]{1,64}")
_SPACE = re.compile(r"[ \t\r\n\f]+")
_STANDS = re.compile(rf'<{PLACEHOLDER} n="(\d{{1,5}})"></{PLACEHOLDER}>|</?{PLACEHOLDER}[^<>]*>')
_TEX = ("application/x-tex", "text/x-tex", "application/x-latex")
#: Scripts → the signs of their positions in text.
_SIGNS = {
    "msub": "_", "msup": "^", "msubsup": "_^", "munder": "_", "mover": "^", "munderover": "_^",
    "mmultiscripts": "_^",
}  # fmt: skip
#: Alphabets that browsers without the attribute would show as plain letters: first capital, first small.
_ALPHABETS = {
    "bold": (0x1D400, 0x1D41A), "bold-italic": (0x1D468, 0x1D482), "script": (0x1D49C, 0x1D4B6),
    "bold-script": (0x1D4D0, 0x1D4EA), "fraktur": (0x1D504, 0x1D51E), "double-struck": (0x1D538, 0x1D552),
    "bold-fraktur": (0x1D56C, 0x1D586), "sans-serif": (0x1D5A0, 0x1D5BA), "monospace": (0x1D670, 0x1D68A),
}  # fmt: skip
#: Letters of these alphabets that Unicode had before (Letterlike Symbols).
_EARLIER = dict(
    zip(
        map(
            chr,
            [
                *(
                    0x1D49D,
                    0x1D4A0,
                    0x1D4A1,
                    0x1D4A3,
                    0x1D4A4,
                    0x1D4A7,
                    0x1D4A8,
                    0x1D4AD,
                    0x1D4BA,
                    0x1D4BC,
                    0x1D4C4,
                ),
                *(0x1D506, 0x1D50B, 0x1D50C, 0x1D515, 0x1D51D),
                *(0x1D53A, 0x1D53F, 0x1D545, 0x1D547, 0x1D548, 0x1D549, 0x1D551),
            ],
        ),
        "ℬℰℱℋℐℒℳℛℯℊℴℭℌℑℜℨℂℍℕℙℚℝℤ",
        strict=True,
    )
)


def render_placeholder(number: int) -> str:
    """Return the markup that stands for a formula."""
    return f"<{PLACEHOLDER} n={number}></{PLACEHOLDER}>"


def insert_formulas(markup: str, formulas: list[str]) -> str:
    """Return sanitized HTML with its placeholders replaced, each formula at most once."""
    left: list[str | None] = list(formulas)

    def insert_formula(stands: re.Match[str]) -> str:
        number = int(stands[1] or len(left))
        formula = left[number] if number < len(left) else None
        if formula is None:
            return ""
        left[number] = None
        return formula

    return _STANDS.sub(insert_formula, markup)


def render_formula(inner: str, inside: str) -> str | None:
    """Return a formula as safe MathML, given the insides of its start tag and of the element.

    Returns:
        The formula; None if it isn't MathML that browsers can draw.
    """
    root = parse_element("math", inner, inside)
    if root is None:
        return None
    for one in root.walk_elements():
        if one.name in LEAVES:
            one.content = [_read_leaf(one)]
    shown = _render_all(root)
    if not _has_text(shown):
        return None
    if root.given.get("mode") == "display":
        root.given["display"] = "block"
    words = find_alternative(root)[:MAX_ALTERNATIVE]
    return f'<math{_attributes(root)} alttext="{escape_value(words)}">{shown}</math>'


def find_alternative(root: Element) -> str:
    """Return a formula as text: its TeX, its ``alttext``, or else what its structure says, on one line."""
    tex = next(
        (
            one.join_text()
            for one in root.walk_elements()
            if one.name == "annotation" and one.given.get("encoding", "").lower() in _TEX
        ),
        "",
    )
    return " ".join((tex or root.given.get("alttext") or _say_all(root)).split())


def _has_text(shown: str) -> bool:
    return any(part.strip() for part in re.split(r"<[^<>]*>", shown))


def _render_all(parent: Element) -> str:
    return "".join(_render(one) if isinstance(one, Element) else _wrap(one) for one in _children(parent))


def _children(parent: Element) -> list[Element | str]:
    """Return the drawn content of an element: of alternatives, only the first."""
    if parent.name in ("semantics", "maction"):
        return list(parent.elements[:1])
    if parent.name == "mfenced":
        return _fence(parent)
    return parent.content


def _fence(parent: Element) -> list[Element | str]:
    """Return the content of <mfenced>, which browsers draw without its brackets, with its brackets."""
    given, parts = parent.given, parent.elements
    separators = "".join(given.get("separators", ",").split())
    content: list[Element | str] = [Element("mo", {}, [given.get("open", "(")])]
    for n, part in enumerate(parts):
        if n and separators:
            content.append(Element("mo", {}, [separators[min(n, len(separators)) - 1]]))
        content.append(part)
    return [*content, Element("mo", {}, [given.get("close", ")")])]


def _wrap(text: str) -> str:
    words = _SPACE.sub(" ", text).strip(" ")
    return f"<mtext>{escape_text(words)}</mtext>" if words else ""


def _render(one: Element) -> str:
    name = one.name
    if name in LEAVES:
        return f"<{name}{_attributes(one)}>{escape_text(one.join_text())}</{name}>"
    if name in _DROPPED:
        return ""
    if name in ("semantics", "maction", "mfenced", "math"):
        name = "mrow"
    shown = _render_all(one)
    return f"<{name}{_attributes(one)}>{shown}</{name}>" if name in ELEMENTS else shown


def _read_leaf(leaf: Element) -> str:
    """Return a leaf's text, with letters of other alphabets as the characters that mean them."""
    text = _SPACE.sub(" ", leaf.join_text()).strip(" ")
    if leaf.given.get("mathvariant") not in _ALPHABETS:
        return text
    big, small = _ALPHABETS[leaf.given.pop("mathvariant")]
    moved = (
        chr(big + ord(c) - 65) if "A" <= c <= "Z" else chr(small + ord(c) - 97) if "a" <= c <= "z" else c
        for c in text
    )
    return "".join(_EARLIER.get(c, c) for c in moved)


def _attributes(one: Element) -> str:
    kept = {
        name: value for name, value in one.given.items() if name in ATTRIBUTES and _VALUE.fullmatch(value)
    }
    return tag_patterns.write_attributes(kept)


def _say_all(parent: Element) -> str:
    said = [_say(one) if isinstance(one, Element) else one.strip() for one in _children(parent)]
    return " ".join(filter(None, said))


def _say(one: Element) -> str:
    if one.name in LEAVES:
        return one.join_text()
    if one.name in _DROPPED or one.name == "mphantom":
        return ""
    if say := _WORDS.get(one.name):
        return say(one)
    if signs := _SIGNS.get(one.name):
        return _say_scripts(one, signs)
    return _say_all(one)


def _say_scripts(one: Element, signs: str) -> str:
    parts = [_say(part) for part in one.elements if part.name not in ("none", "mprescripts")]
    return (
        "".join(
            [_group(parts[0])]
            + [sign + _group(part) for sign, part in zip(signs, parts[1:], strict=False) if part]
        )
        if parts
        else ""
    )


def _group(said: str) -> str:
    """Return a part in parentheses, unless it is one letter, number or group."""
    closed = said.startswith("(") and said.endswith(")") and said.count("(") == 1
    return said if closed or said.replace(".", "").isalnum() or len(said) < 2 else f"({said})"


def _say_fraction(one: Element) -> str:
    return "/".join(_group(_say(part)) for part in one.elements[:2])


def _say_root(one: Element) -> str:
    base, *index = [_say(part) for part in one.elements] or [""]
    return f"√[{index[0]}]{_group(base)}" if index else f"√{_group(base)}"


def _say_table(one: Element) -> str:
    rows = (", ".join(map(_say, row.elements)) for row in one.elements)
    return "[" + "; ".join(rows) + "]"


_WORDS: dict[str, Callable[[Element], str]] = {
    "mfrac": _say_fraction,
    "mroot": _say_root,
    "msqrt": lambda one: f"√{_group(_say_all(one))}",
    "mtable": _say_table,
}
