"""Replacements for elements that entries may not contain (H01) but whose text readers should see."""

from __future__ import annotations

import html
import re

from app.feeds.html import allow_list, drawings, formulas, tag_patterns, text

#: Elements that the functions below handle.
NAMES = frozenset(["math", "script", "svg", "textarea", "xmp", "dialog", "input", "canvas"])
#: Elements whose content isn't markup or isn't shown.
_RAW = ("noembed", "noframes", "script", "style", "svg", "template", "textarea", "title", "xmp")
_BEGIN = re.compile(rf"<(?=[!nstx])(?:!--|({'|'.join(_RAW)})(?=[\s/>]){tag_patterns.INNER}>)", re.IGNORECASE)
_END = {name: re.compile(rf"</{name}(?=[\s/>])[^<>]*>", re.IGNORECASE) for name in _RAW}
_COMMENT_END = re.compile("--!?>")
_INPUT = tag_patterns.compile_tag_pattern("input")
_SPAN = re.compile(r"<(/?)span(?=[\s/>])([^<>]*+)>", re.IGNORECASE)
#: Markup before the visual copy of a formula that also exists as MathML.
_TWICE = re.compile(r"</math\s*+>\s*+(?:</span\s*+>\s*+)?\Z", re.IGNORECASE)
_TWICE_LENGTH = 80
_ANNOTATION = re.compile(r"<annotation(?=[\s>])([^<>]*+)>([^<]*+)", re.IGNORECASE)

#: What a page asks of readers whose browser lacks something, which no longer applies to them here.
_PLEA = re.compile(
    r"\b(?:enable|activate|allow|requires?|needs?|turn on|install|without|upgrade|download)\b.{0,80}"
    r"\b(?:javascript|java script|flash|scripts?|browser)\b"
    r"|\b(?:javascript|flash|browser)\b.{0,40}\b(?:does not|doesn.?t|do not|don.?t|cannot|can.?t|isn.?t"
    r"|is (?:disabled|required|needed|not)|(?:un)?able|unsupported|must|has)\b",
    re.IGNORECASE,
)
_PLEA_LENGTH = 240
_MEDIA = re.compile(r"<(?:img|iframe|video|audio|picture|embed|table)(?=[\s/>])", re.IGNORECASE)


def is_plea(markup: str) -> bool:
    """Return whether HTML for other browsers only asks for another browser, or for scripts."""
    if len(markup) > 8 * _PLEA_LENGTH or _MEDIA.search(markup):
        return False
    words = text.flatten_html(markup)
    return len(words) <= _PLEA_LENGTH and _PLEA.search(words) is not None


def remove_pleas(name: str, markup: str) -> str:
    """Return the HTML with a name's elements unwrapped, without those that only ask for another browser."""
    return tag_patterns.replace_elements(name, markup, lambda found: "" if is_plea(found[2]) else found[0])


def strip_invisible(markup: str) -> str:
    """Return the HTML without comments, scripts, styles and other invisible content.

    Drawings become pictures. <textarea> and <xmp>, which old pages use for code, become <pre>. TeX in MathJax
    scripts becomes code. Gist scripts stay for :func:`app.feeds.html.embeds.replace_embeds_with_links`.
    Elements without an end tag are left to the HTML parser.
    """
    kept: list[str] = []
    at = searched = 0
    endless: set[str] = set()
    while begin := _BEGIN.search(markup, searched):
        searched = begin.end()
        name = (begin[1] or "").lower()
        if name in endless:
            continue
        # "<!-->" is a whole comment.
        end = _END[name].search(markup, searched) if name else _COMMENT_END.search(markup, searched - 2)
        if end is None:
            endless.add(name)
            continue
        inside = markup[searched : end.start()]
        if not _nests(name, inside):
            kept += [markup[at : begin.start()], _left(name, begin, inside)]
            at = end.end()
        searched = end.end()
    return "".join(kept) + markup[at:]


def _nests(name: str, inside: str) -> bool:
    """Return whether the first end tag may belong to a nested element, which only a parser can tell."""
    if name == "script" and "<!--" not in inside:
        return False
    return name in ("script", "svg", "template") and f"<{name}" in inside.lower()


def _left(name: str, begin: re.Match[str], inside: str) -> str:
    if name == "script":
        return _tex(tag_patterns.parse_attributes(begin[2]), inside) or (
            f"{begin[0]}</script>" if "gist.github.com" in begin[2] else ""
        )
    if name == "textarea":
        return _pre(inside)
    if name == "svg":
        return drawings.render_drawing(begin[2], inside, allow_list.get_page())
    # Unlike in <textarea>, character references have no meaning in <xmp>.
    return _pre(inside.replace("&", "&amp;")) if name == "xmp" else ""


def _tex(given: dict[str, str], inside: str) -> str:
    if not given.get("type", "").lower().startswith(("math/tex", "math/asciimath")):
        return ""
    for wrapping in ("% <![CDATA[", "%]]>", "<![CDATA[", "]]>"):
        inside = inside.replace(wrapping, "")
    return _code(" ".join(inside.split()))


def _code(words: str) -> str:
    return f"<code>{html.escape(words, quote=False)}</code>" if words else ""


def _pre(words: str) -> str:
    escaped = words.replace("<", "&lt;").replace(">", "&gt;")
    return f"<pre>{escaped}</pre>" if words.strip() else ""


def replace_math(markup: str, found: list[str]) -> str:
    """Return the HTML with placeholders for formulas, which are added to ``found``.

    Formulas that browsers can't draw become their TeX or text. KaTeX writes each formula twice: as MathML
    and as visual pieces, which are heaps of letters without its style sheet.
    """
    if "katex-html" in markup:
        markup = _without_pieces(markup)

    def set_aside(formula: re.Match[str]) -> str:
        drawn = (
            formulas.render_formula(formula[1], formula[2]) if len(found) < formulas.MAX_FORMULAS else None
        )
        if drawn is None:
            return _formula(formula)
        found.append(drawn)
        return formulas.render_placeholder(len(found) - 1)

    return tag_patterns.replace_elements("math", markup, set_aside)


def _formula(found: re.Match[str]) -> str:
    tex = next((inner for given, inner in _ANNOTATION.findall(found[2]) if "application/x-tex" in given), "")
    words = text.flatten_html(tex) or tag_patterns.parse_attributes(found[1]).get("alttext")
    if words:
        return _code(words)
    seen = tag_patterns.replace_elements("annotation-xml", found[2], lambda _: "")
    return _code(text.flatten_html(_ANNOTATION.sub("", seen)))


def _without_pieces(markup: str) -> str:
    kept, at, depth = [], 0, 0
    for span in _SPAN.finditer(markup):
        if depth:
            depth += -1 if span[1] else 1
            at = span.end()
        elif "katex-html" in span[2] and _TWICE.search(
            markup, max(0, span.start() - _TWICE_LENGTH), span.start()
        ):
            kept.append(markup[at : span.start()])
            depth = 1
    return markup if depth else "".join(kept) + markup[at:]


def replace_controls(markup: str) -> str:
    """Return the HTML with open dialogs as their content, and checkboxes of task lists as symbols."""
    markup = tag_patterns.replace_elements("dialog", markup, _dialog)
    return _INPUT.sub(_box, markup)


def _dialog(found: re.Match[str]) -> str:
    return f"<div>{found[2]}</div>" if "open" in tag_patterns.parse_attributes(found[1]) else ""


def _box(found: re.Match[str]) -> str:
    given = tag_patterns.parse_attributes(found[2])
    if given.get("type", "").lower() != "checkbox":
        return found[0]
    return "☑" if "checked" in given else "☐"
