"""Plain text from feed markup: titles, authors, names and the short excerpts of lists.

Publishers put markup, entities and doubly escaped text where plain text belongs. The functions here
return text without any markup, which templates escape again.
All expressions are linear: none scans past the next ``<`` more than once, and an unclosed element
extends to the end.
"""

from __future__ import annotations

import html
import re

from app.feeds.html import tag_patterns

#: Elements whose tags are stripped; anything else in angle brackets is text ("List<String>", "<y and z>").
_INLINE = (
    "a abbr acronym b bdi bdo big blink cite code data del dfn em font i ins kbd mark nobr q rb rp rt ruby "
    "s samp small span strike strong sub sup time tt u var wbr"
)
_BLOCK = (
    "address article aside audio base blockquote body br button canvas caption center col colgroup dd "
    "details dialog div dl dt embed fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 "
    "head header hr html iframe img input label legend li link main map area marquee math menu meta nav "
    "noembed noframes noscript object ol optgroup option p param picture pre progress script section select "
    "slot source style summary svg table tbody td template textarea tfoot th thead title tr track ul video "
    "xmp"
)

_SPACING = dict.fromkeys(_INLINE.split(), "") | dict.fromkeys(_BLOCK.split(), " ")
ELEMENTS = frozenset(_SPACING)

#: Invisible content: comments, scripts, styles, declarations. An unclosed one reaches to the end.
_UNSEEN = re.compile(
    r"<!--(?:.*?-->|(?P<comment>.*\Z))"
    r"|<(?P<name>script|style)(?=[\s/>])(?:.*?</(?P=name)\s*>|[^<>]*>?(?P<open>.*\Z))"
    r"|<!\[CDATA\[|\]\]>|<[!?][A-Za-z][^<>]*>",
    re.IGNORECASE | re.DOTALL,
)
#: A quick check for invisible content: unlike the expression above, it stops at each "<".
_HIDDEN = re.compile(r"<(?:[!?]|script|style)", re.IGNORECASE)
_TAG = re.compile(rf"</?([A-Za-z][A-Za-z0-9]{{0,15}})(?=[\s/>])(?:{tag_patterns.INSIDE}>|[^<>]*>)")
#: A tag as the sanitizer writes it, with ``<`` and ``>`` escaped in its attributes.
_CLEAN_TAG = re.compile(r"</?([a-z0-9]+)[^<>]*>")
_NAMES = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]{0,15})(?=[\s/>])")
#: Formatting that was escaped twice; a lone "<b>" is a title about HTML and stays.
_ESCAPED_PAIR = re.compile(
    r"<(?P<name>b|i|u|em|strong|span|font|a|small|sub|sup)(?:\s[^<>]*)?>(?P<inner>[^<>]*)</(?P=name)\s*>",
    re.IGNORECASE,
)
_ESCAPED_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_EXPONENT = re.compile(r"<sup>([0-9+−–-]{1,9})</sup>")
_RAISED = str.maketrans("0123456789+-−–", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻")
_REFERENCE = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
#: Controls, lone surrogates (which no store accepts as UTF-8), the byte order mark, non-characters, and
#: characters that change the direction of the surrounding line too (UAX #9, 2.1 to 2.4).
_CONTROL = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)
#: Characters of languages without spaces.
_IDEOGRAPHS = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0e7f]")
_LANGUAGE = re.compile(r"[A-Za-z0-9_-]{1,35}")
#: windows-1252 bytes that a wrong charset label left in the C1 range (WHATWG Encoding, index windows-1252).
_C1 = {chr(n): bytes([n]).decode("cp1252", "ignore") for n in range(0x80, 0xA0)}


def extract_plain_text(markup: str) -> str:
    """Return the text of a title-like field: no markup, no references, no double escapes.

    C1 characters, referenced or raw, are read as windows-1252. Control characters are removed and white
    space is collapsed. ``a < b``, ``AT&T`` and ``List<String>`` stay as they are.
    """
    if "<" not in markup and "&" not in markup:
        return _tidy(markup)
    text = html.unescape(_strip(_raised(markup)))
    if "&" in text and _REFERENCE.search(text):
        text = html.unescape(text)
    if "</" in text:
        text = _ESCAPED_PAIR.sub(lambda m: m["inner"], _raised(text))
    if "<" in text:
        text = _ESCAPED_BREAK.sub(" ", text)
    return _tidy(text)


def _raised(text: str) -> str:
    """Return the text with exponents as characters: without markup, 10<sup>6</sup> would read 106."""
    return _EXPONENT.sub(lambda m: m[1].translate(_RAISED), text) if "sup>" in text else text


def _say_formulas(markup: str) -> str:
    """Return HTML with formulas as text: their letters in a row would be another formula."""
    return tag_patterns.replace_elements("math", markup, _say_formula)


def _say_formula(found: re.Match[str]) -> str:
    words = tag_patterns.parse_attributes(found[1]).get("alttext", "")
    return html.escape(words, quote=False) if words else found[0]


def make_excerpt(markup: str, length: int) -> str:
    """Return the first ``length`` characters of the text of sanitized HTML, cut at a word, with "…".

    Reads only as much HTML as the length needs, and at most the first 64 KiB.
    """
    text = ""
    for window in (2 * length + 300, 5 * length + 1000, 12 * length + 4096, 65536):
        text = _beginning(cut_html(markup, window), length)
        if len(text) > length or window >= len(markup):
            break
    if len(text) <= length:
        return text
    head = text[:length]
    if not text[length].isspace():
        head = head.rpartition(" ")[0] or head
    return head.rstrip(" ,;:.–—-") + "…"


def _beginning(markup: str, length: int) -> str:
    """Return more than ``length`` characters of the text of sanitized HTML, or all of it."""
    text = html.unescape(_space_tags(markup))
    # Tidying text that is cut off later would take most of the time.
    head = _tidy(text[: length + length // 4])
    return head if len(head) > length else _tidy(text)


def flatten_html(markup: str) -> str:
    """Return the text of body HTML on one line; unlike :func:`extract_plain_text`, it unescapes only once."""
    if "<" in markup:
        # Split at the tags: [text, name, text, name, …, text]. A function call per match costs more.
        markup = _without_unseen(markup)
        parts = _TAG.split(_say_formulas(markup) if "<math" in markup else markup)
        # In a body, unlike in a title, unknown elements are markup too.
        parts[1::2] = [_SPACING.get(name.lower(), " ") for name in parts[1::2]]
        markup = "".join(parts)
    return _tidy(html.unescape(markup))


def extract_clean_text(markup: str) -> str:
    """Return the text of sanitized HTML; unlike :func:`flatten_html`, it leaves white space as it is."""
    return _without_controls(html.unescape(_space_tags(markup)))


def _space_tags(markup: str) -> str:
    """Return sanitized HTML with its tags replaced by nothing or a space, and formulas by their text."""
    if "<" not in markup:
        return markup
    if "<math" in markup:
        markup = _say_formulas(markup)
    # [text, name, text, name, …, text]
    parts = _CLEAN_TAG.split(markup)
    parts[1::2] = [_SPACING.get(name, " ") for name in parts[1::2]]
    return "".join(parts)


def count_text_words(text: str) -> int:
    """Return the number of words in plain text; a character of Chinese, Japanese or Thai is half a word."""
    letters = len(_IDEOGRAPHS.findall(text))
    return len(_IDEOGRAPHS.sub(" ", text).split()) + letters // 2


def cut_html(markup: str, length: int) -> str:
    """Return the first characters of HTML, without a tag or reference that the cut would split."""
    if len(markup) <= length:
        return markup
    head = markup[:length]
    head = head[: head.rfind("<")] if head.rfind("<") > head.rfind(">") else head
    amp = head.rfind("&")
    return head[:amp] if amp > head.rfind(";") and amp > len(head) - 32 else head


def _strip(markup: str) -> str:
    """Return HTML without tags and invisible content; references stay."""
    if "<" not in markup and "]]>" not in markup:
        return markup
    markup = _without_unseen(markup)
    if "<" not in markup:
        return markup
    names = _NAMES.findall(markup)
    starts = {name.lower() for slash, name in names if not slash}
    ends = {name.lower() for slash, name in names if slash}
    return _TAG.sub(lambda m: _tag_text(m, starts, ends), markup)


def _without_unseen(markup: str) -> str:
    if "]]>" in markup or _HIDDEN.search(markup):
        return _UNSEEN.sub(_unseen_text, markup)
    return markup


def _unseen_text(match: re.Match[str]) -> str:
    # Unclosed, it is more likely a title about HTML than a script, so its text stays.
    if match["open"] is not None:
        return match[0]
    return match["comment"] or ("" if match[0] in ("<![CDATA[", "]]>") else " ")


def _tag_text(match: re.Match[str], starts: set[str], ends: set[str]) -> str:
    """Return the text of a tag: a lone tag without attributes is the topic of the title and stays."""
    tag, name = match[0], match[1].lower()
    is_markup = name in (starts if tag[1] == "/" else ends) or name in ("br", "wbr") or "=" in tag
    return _SPACING.get(name, tag) if is_markup else tag


def _tidy(text: str) -> str:
    return " ".join(_without_controls(text).split())


def _without_controls(text: str) -> str:
    if not text.isprintable():
        # Most of these are white space, which separates words in any form: avoid checking each character.
        text = text.replace("\n", " ").replace("\r", " ").replace("\t", " ").replace("\xa0", " ")
        if not text.isprintable():
            text = _CONTROL.sub(lambda m: _C1.get(m[0], ""), text)
            if not any(c.isprintable() and c != " " for c in text):
                return ""  # nothing in it is visible
    return text


def parse_language_tag(text: str) -> str | None:
    """Return a language tag (RFC 5646, and "en_US") if its form is valid, else None."""
    tag = text.strip()
    return tag if _LANGUAGE.fullmatch(tag) else None
