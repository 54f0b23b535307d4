"""The first paragraphs of an article that stand outside of the element with the rest.

Many sites put the summary, or the first paragraphs, between the heading and the element with the text. The
algorithm that finds the text looks at one element and its neighbours, so that it leaves them out, and the
reader would begin in the middle of the article.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import lxml.html
from lxml import etree

from app.feeds.html.text import count_text_words, flatten_html

#: Most paragraphs before the text: more than that is another article, or a list.
PARAGRAPHS_MAX: Final = 8
#: Least words of a paragraph, and the largest part of its words that may be links.
WORDS_MIN, LINKS_MAX = 10, 0.3
#: First paragraphs of the text that are looked for on the page, and their least words.
ANCHORS, ANCHOR_WORDS = 3, 8
#: Least words of a heading that is only the beginning of the title.
TITLE_WORDS: Final = 4
#: Elements whose paragraphs aren't the article's.
_APART: Final = frozenset(
    {
        "aside",
        "blockquote",
        "button",
        "dialog",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "li",
        "nav",
    }
    | {"noscript", "object", "svg", "table", "template", "video"}
)
#: Names of parts of a page that aren't the article's.
_APART_NAME: Final = re.compile(
    r"advert|author|banner|bio\b|byline|caption|comment|consent|cookie|copyright|credit|disclos|donat|footer|"
    r"hidden|legend|login|\bmeta|menu|modal|nav\b|newsletter|paywall|popup|premium|promo|related|share|sharing|"
    r"sidebar|signup|social|sponsor|subscri|toolbar|transcript|widget",
    re.IGNORECASE,
)
_UNSEEN: Final = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
#: How a sentence ends.
_END: Final = re.compile(r"[.!?…。！？؟][\s\"'”’»)\]]*$")
_WORD: Final = re.compile(r"\w+")


def find_lead(tree: etree._Element, found: str, titles: Sequence[str]) -> str:
    """Return the HTML of the paragraphs between a page's heading and the text that was found on it.

    Args:
        tree: the page, with absolute links.
        found: HTML of the text.
        titles: of the page: the heading has the words of one of them, or it is an ``h1``.
    """
    wanted = [_fold(text) for text in _read_anchors(found)]
    if not wanted:
        return ""
    whole = _fold(flatten_html(found))
    before, heads = list[etree._Element](), [_fold(title) for title in titles]
    has_heading = False
    for element in tree.iter("h1", "h2", "p"):
        text = _fold(element.text_content()) if isinstance(element, lxml.html.HtmlElement) else ""
        if element.tag != "p":
            if text and (element.tag == "h1" or any(_is_heading(text, head) for head in heads)):
                before, has_heading = [], True
        elif text in wanted:
            break
        elif has_heading and text not in whole and _is_article(element):
            before.append(element)
    else:
        return ""
    return "".join(map(_write, before)) if len(before) <= PARAGRAPHS_MAX else ""


def _fold(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


def _is_heading(text: str, title: str) -> bool:
    """Tell whether a heading is the title, which may go on, such as with the name of the site."""
    return text == title or (title.startswith(f"{text} ") and len(text.split()) >= TITLE_WORDS)


def _read_anchors(found: str) -> Iterator[str]:
    """Yield the texts of the first paragraphs of the text that can be recognized on the page."""
    count = 0
    tree: Any = lxml.html.document_fromstring(found) if found.strip() else None
    for element in () if tree is None else tree.iter("p"):
        text = element.text_content()
        if count_text_words(text) >= ANCHOR_WORDS:
            yield text
            count += 1
        if count == ANCHORS:
            return


def _is_article(element: Any) -> bool:
    """Tell whether a paragraph has sentences, few links, and stands in no other part of the page."""
    text = element.text_content()
    words = count_text_words(text)
    if words < WORDS_MIN or not _END.search(text.strip()):
        return False
    linked = sum(count_text_words(link.text_content()) for link in element.iter("a"))
    return linked <= LINKS_MAX * words and not any(
        _is_apart(one) for one in (element, *element.iterancestors())
    )


def _is_apart(element: Any) -> bool:
    if element.tag in ("body", "html"):
        return False
    if element.get("hidden") is not None or _UNSEEN.search(element.get("style") or ""):
        return True
    names = f"{element.get('class') or ''} {element.get('id') or ''}"
    return element.tag in _APART or bool(_APART_NAME.search(names))


def _write(element: etree._Element) -> str:
    """Return the HTML of a paragraph, but without the text behind it."""
    return etree.tostring(element, encoding="unicode", method="html", with_tail=False)
