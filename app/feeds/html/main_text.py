"""The main text of a web page: the article without menus, advertisements and comments.

The algorithm is Arc90's Readability, as the package readability-lxml implements it. What it returns is HTML
of a stranger: the sanitizer still has to clean it. It takes about 50 ms per page, and seconds for odd ones,
so that it runs in a process that may be killed.
"""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple
from urllib.parse import urljoin

import lxml.html
from lxml import etree

from app.feeds.html.article_selectors import apply_rule
from app.feeds.html.lead import find_lead
from app.feeds.html.text import count_text_words, flatten_html
from app.feeds.parse import charset
from app.models.reading.text_rules import TextRule

# It logs the whole text of pages that it can't read.
logging.getLogger("readability").setLevel(logging.CRITICAL)

#: Deepest nesting and most elements of a page. Real pages have at most 60 levels; the algorithm reads the
#: text of each element again for each of its ancestors.
MAX_DEPTH, MAX_ELEMENTS = 150, 50_000
#: Headings of a text that may repeat its title, and the least words of a title that goes on.
HEADINGS, TITLE_WORDS = 3, 4
#: Most characters of a page's own title.
TITLE_LENGTH = 512
_WORD: Final = re.compile(r"\w+")


class MainText(NamedTuple):
    """The main text of a page: HTML with absolute addresses, not sanitized; empty if there is none.

    ``picture`` is the address of the picture that the page names for itself (``og:image``), if its text has
    none. ``title`` is the page's own, as plain text. ``is_by_rule``: a rule for its site found the text.
    """

    html: str
    picture: str | None = None
    title: str = ""
    is_by_rule: bool = False


def extract_main_text(
    page: bytes, url: str, content_type: str | None = None, *, title: str = "", rule: TextRule | None = None
) -> MainText:
    """Return the main text of a page, which is empty if the page has none or is too odd to read.

    Args:
        page: as it was fetched.
        url: its address, for relative addresses.
        content_type: the header of the response, for the charset.
        title: shown above the text, which therefore loses a heading that repeats it.
        rule: of the admins, for the site. Where its content isn't there, the text is found as usual.
    """
    markup, _ = charset.decode(page, content_type)
    try:
        tree = lxml.html.document_fromstring(markup.encode(), parser=lxml.html.HTMLParser(encoding="utf-8"))
        if _is_hostile(tree):
            return MainText("")
        picture, page_title = _find_picture(tree, url), _find_title(tree)
        _resolve_links(tree, url)
        if rule is not None:
            chosen = apply_rule(tree, rule)
            if "<img" in chosen or count_words(chosen):  # an empty container: scripts fill it
                chosen = drop_heading(chosen, title)
                return MainText(chosen, None if "<img" in chosen else picture, page_title, is_by_rule=True)
        # It takes 19 MB, and few processes need it.
        document = import_module("readability").Document(tree, url=url)
        found = document.summary(html_partial=True, keep_all_images=True)
        found = found if isinstance(found, str) else ""
        found = _find_lead(tree, found, (title, page_title)) + drop_heading(found, title)
    except (etree.LxmlError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return MainText("")
    return MainText(found, None if "<img" in found else picture, page_title)


def _find_lead(tree: etree._Element, found: str, titles: Sequence[str]) -> str:
    """Return the paragraphs before a text; nothing where they are odd, so that the text itself isn't lost."""
    try:
        return find_lead(tree, found, titles)
    except (etree.LxmlError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return ""


def _resolve_links(tree: Any, url: str) -> None:
    """Make the links of a page absolute, from its first ``<base>`` with an address; drop broken ones.

    The algorithm does the same, but one broken link beside a base, or in an object's, ends it.
    """
    bases = [element for element in tree.iter("base") if element.get("href")]
    base = _join(url, bases[0].get("href").strip()) if bases else ""
    for element in bases:
        element.drop_tree()
    etree.strip_attributes(tree, "codebase")
    tree.make_links_absolute(base or url, resolve_base_href=False, handle_failures="discard")


def _join(base: str, address: str) -> str:
    """Return an absolute address, empty if it is broken."""
    try:
        return urljoin(base, address)
    except ValueError:
        return ""


def drop_heading(markup: str, title: str) -> str:
    """Return HTML without the heading among its first ones that repeats a title."""
    if not title or not markup:
        return markup
    tree = lxml.html.fragment_fromstring(markup, create_parent="div")
    for heading in itertools.islice(tree.iter("h1", "h2", "h3"), HEADINGS):
        if _is_same_title(heading.text_content(), title) and heading.find(".//img") is None:
            heading.drop_tree()
            return etree.tostring(tree, encoding="unicode", method="html")
    return markup


def _is_same_title(one: str, other: str) -> bool:
    """Tell whether two titles have the same words, or one goes on, such as with the name of the site."""
    shorter, longer = sorted((_WORD.findall(text.casefold()) for text in (one, other)), key=len)
    return longer[: len(shorter)] == shorter and (
        len(shorter) == len(longer) > 0 or len(shorter) >= TITLE_WORDS
    )


def count_words(markup: str) -> int:
    """Return the number of words in HTML; a character of Chinese, Japanese or Thai counts as half a word."""
    return count_text_words(flatten_html(markup))


def _is_hostile(tree: etree._Element) -> bool:
    depth = count = 0
    for event, _ in etree.iterwalk(tree, events=("start", "end")):
        depth += 1 if event == "start" else -1
        count += event == "start"
        if depth > MAX_DEPTH or count > MAX_ELEMENTS:
            return True
    return False


def _find_title(tree: etree._Element) -> str:
    """Return the title that a page states for itself."""
    for path in ("//meta[@property='og:title']/@content", "//head/title/text()"):
        named = tree.xpath(path)
        found = [" ".join(str(text).split()) for text in named] if isinstance(named, list) else []
        if title := next((text for text in found if text), ""):
            return title[:TITLE_LENGTH]
    return ""


def _find_picture(tree: etree._Element, url: str) -> str | None:
    found = tree.xpath("//meta[@property='og:image' or @name='og:image']/@content")
    address = _join(url, str(found[0]).strip()) if isinstance(found, list) and found else ""
    return address if address.startswith(("https://", "http://")) else None
