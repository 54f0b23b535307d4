"""Reading the entries of a page by a recipe."""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
import json
import re
from collections.abc import Iterable
from html import escape
from typing import Any
from urllib.parse import urljoin

from lxml import etree

from app.errors import InvalidError, ParseError
from app.feeds.html.text import extract_plain_text
from app.feeds.pages import json_paths
from app.feeds.pages.budget import Budget
from app.feeds.pages.selectors import Selector, parse_selector
from app.feeds.parse import charset
from app.feeds.parse.dates import parse_date, parse_epoch
from app.feeds.parse.limits import Limits
from app.models.feeds.parsed import Format, ParsedEntry, ParsedFeed, ParserPath
from app.models.feeds.recipe import Recipe, RecipeKind

#: Longest page, in bytes, and most entries of one.
MAX_PAGE, MAX_ITEMS = 2 << 20, 200
#: Most elements of one entry that a part may select.
MAX_PARTS = 20
_DEFAULT = Limits()
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_IMAGES = ("src", "data-src", "data-lazy-src", "data-original")
_SPACE = re.compile(r"\s+")


class PageTree:
    """A page, parsed once.

    Raises:
        ParseError: ``too_large`` or ``empty``.
    """

    def __init__(self, body: bytes, url: str, content_type: str | None = None) -> None:
        if len(body) > MAX_PAGE:
            raise ParseError("too_large", f"{len(body)} bytes")
        text = charset.decode(body, content_type)[0]
        parser = etree.HTMLParser(encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True)
        try:
            self.root: Any = etree.fromstring(text.encode("utf-8", "replace"), parser)
        except etree.XMLSyntaxError as e:
            raise ParseError("empty") from e
        if self.root is None:
            raise ParseError("empty")
        base = next(iter(self.root.iter("base")), None)
        self.base = _join(url, base.get("href", "")) if base is not None else url
        self.base = self.base or url

    @property
    def title(self) -> str:
        """The page's own title."""
        found = next(iter(self.root.iter("title")), None)
        return clean_text(found) if found is not None else ""

    def find_meta(self, *names: str) -> str:
        """Return the content of the first of these ``meta`` elements that is set."""
        found = {(m.get("name") or m.get("property") or "").lower(): m.get("content") or ""
                 for m in self.root.iter("meta")}  # fmt: skip
        return next((found[name] for name in names if found.get(name)), "")

    def resolve(self, reference: str | None) -> str:
        """Return the absolute web address of a reference; empty: it isn't one."""
        return _join(self.base, reference or "")


def check_recipe(recipe: Recipe) -> None:
    """Check all selectors of a recipe.

    Raises:
        InvalidError: one isn't understood; it names the field.
    """
    for name, text in recipe.parts.items():
        if recipe.kind is RecipeKind.JSON:
            json_paths.parse_path(text, name)
        else:
            parse_selector(recipe.kind, text, name)


def read_page(
    body: bytes, recipe: Recipe, *, url: str, content_type: str | None = None, limits: Limits = _DEFAULT
) -> ParsedFeed:
    """Return the feed that a recipe reads from a page.

    Raises:
        ParseError: ``recipe_broken``: there is no entry; ``empty``; ``too_large``: the page, or the
            text of entries that are inside one another.
    """
    try:
        check_recipe(recipe)
        if recipe.kind is RecipeKind.JSON:
            return _read_json(body, recipe, url, content_type, limits)
        tree = PageTree(body, url, content_type)
        entries = list(_read_entries(tree, recipe, limits))
    except InvalidError as e:
        raise ParseError("recipe_broken", "the selector isn't valid") from e
    description = tree.find_meta("description", "og:description")
    feed = _build(url, tree.title, entries, ParserPath.PAGE, limits)
    language = _get_language(tree)
    return dataclasses.replace(feed, description=description[: limits.title], language=language)


def _build(
    url: str, title: str, entries: Iterable[ParsedEntry], path: ParserPath, limits: Limits
) -> ParsedFeed:
    by_guid = {entry.guid: entry for entry in reversed(list(entries))}
    found = tuple(reversed(by_guid.values()))
    if not found:
        raise ParseError("recipe_broken", "the selectors find no entry")
    return ParsedFeed(
        format=Format.PAGE,
        parser=path,
        title=title[: limits.title],
        site_url=url,
        description="",
        language=None,
        entries=found,
    )


def _get_language(tree: PageTree) -> str | None:
    found = (tree.root.get("lang") or "").strip()
    return found if re.fullmatch(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8}){0,3}", found) else None


def _read_entries(tree: PageTree, recipe: Recipe, limits: Limits) -> Iterable[ParsedEntry]:
    select = {name: parse_selector(recipe.kind, text, name) for name, text in recipe.parts.items()}
    budget = Budget()
    for item in select["item"].find_in_page(tree.root, MAX_ITEMS):
        entry = _read_entry(tree, item, select, limits, budget)
        if entry is not None:
            yield entry


def _read_entry(
    tree: PageTree, item: Any, select: dict[str, Selector], limits: Limits, budget: Budget
) -> ParsedEntry | None:
    link = _find_link(item, select, budget)
    title = _find_title(item, link, select, budget)[: limits.title]
    url = tree.resolve(budget.count_text(link.get("href") or "")) if link is not None else ""
    if "link" in select and select["link"].attr:
        url = tree.resolve(_read(item, select["link"], budget))
    if not title and not url:
        return None
    body = _find_body(item, select, title, budget)[: limits.html]
    image = tree.resolve(_find_image(item, select, budget))
    return ParsedEntry(
        guid=url or f"{title}\n{body[:200]}",
        url=url or None,
        title=title or url,
        author=_read(item, select["author"], budget)[: limits.title] if "author" in select else "",
        published=_find_date(item, select, budget),
        updated=None,
        content="",
        summary=body,
        base_url=tree.base,
        image=image or None,
    )


def _find_link(item: Any, select: dict[str, Selector], budget: Budget) -> Any:
    if "link" in select:
        found = select["link"].find_below(item, 1, budget.count_element)
        first = found[0] if found else None
        if first is None or first.get("href") or select["link"].attr:
            return first
        return next((a for a in budget.find_elements(first, "a") if a.get("href")), None)
    return find_main_link(item, budget)


def find_main_link(item: Any, budget: Budget) -> Any:
    """Return the link of an entry: itself, that of its heading, or the one with the longest text; or None.

    Raises:
        ParseError: ``too_large``: the budget is used up.
    """
    if item.tag == "a" and is_link(item):
        return item
    for heading in budget.find_elements(item, *_HEADINGS):
        inner = next((a for a in budget.find_elements(heading, "a") if is_link(a)), None)
        outer = next((a for a in heading.iterancestors("a") if is_link(a)), None)
        if inner is not None or outer is not None:
            return inner if inner is not None else outer
    links = (a for a in budget.find_elements(item, "a") if is_link(a))
    return max(links, key=lambda a: len(clean_text(a, budget)), default=None)


def is_link(element: Any) -> bool:
    """Return whether a link leads to a page."""
    href = (element.get("href") or "").strip()
    scheme = href.partition("/")[0].partition("?")[0].lower()
    return bool(href) and href[0] != "#" and (":" not in scheme or scheme in ("http:", "https:"))


def _find_title(item: Any, link: Any, select: dict[str, Selector], budget: Budget) -> str:
    if "title" in select:
        return _read(item, select["title"], budget)
    heading = next(budget.find_elements(item, *_HEADINGS), None)
    texts = (
        clean_text(heading, budget) if heading is not None else "",
        clean_text(link, budget) if link is not None else "",
    )
    found = next(filter(None, texts), "")
    return found or (link.get("title") or "" if link is not None else "") or clean_text(item, budget)[:200]


def _find_date(item: Any, select: dict[str, Selector], budget: Budget) -> dt.datetime | None:
    if "date" in select:
        found = select["date"].find_below(item, 1, budget.count_element)
        if not found:
            return None
        stated = budget.count_text(found[0].get(select["date"].attr or "datetime") or "")
        return parse_date(stated) or parse_date(clean_text(found[0], budget))
    for time in budget.find_elements(item, "time"):
        if date := parse_date(time.get("datetime")) or parse_date(clean_text(time, budget)):
            return date
    return None


def _find_body(item: Any, select: dict[str, Selector], title: str, budget: Budget) -> str:
    if "body" in select:
        found = select["body"].find_below(item, MAX_PARTS, budget.count_element)
        if select["body"].attr:
            values = (budget.count_text(element.get(select["body"].attr) or "") for element in found)
            return escape(" ".join(values))
        return "".join(budget.count_text(_to_html(element)) for element in found)
    texts = (p for p in budget.find_elements(item, "p") if (text := clean_text(p, budget)) and text != title)
    return "".join(budget.count_text(_to_html(p)) for p in itertools.islice(texts, MAX_PARTS))


def _find_image(item: Any, select: dict[str, Selector], budget: Budget) -> str:
    found = (
        select["image"].find_below(item, 1, budget.count_element)
        if "image" in select
        else list(itertools.islice(budget.find_elements(item, "img"), 1))
    )
    if not found:
        return ""
    if "image" in select and select["image"].attr:
        return budget.count_text(found[0].get(select["image"].attr) or "")
    picture = found[0] if found[0].tag == "img" else next(budget.find_elements(found[0], "img"), None)
    if picture is None:
        return ""
    values = (budget.count_text(picture.get(name) or "").strip() for name in _IMAGES)
    return next((value for value in values if value and not value.startswith("data:")), "")


def _read(item: Any, selector: Selector, budget: Budget) -> str:
    """Return the text, or the attribute, of the first element that a selector finds."""
    found = selector.find_below(item, 1, budget.count_element)
    if not found:
        return ""
    if not selector.attr:
        return clean_text(found[0], budget)
    return budget.count_text(found[0].get(selector.attr) or "").strip()


def clean_text(element: Any, budget: Budget | None = None) -> str:
    """Return the visible text of an element, with single spaces.

    Raises:
        ParseError: ``too_large``: the budget is used up.
    """
    budget = budget or Budget()
    hidden = ("script", "style", "noscript", "template")
    texts = (
        budget.count_text(text)
        for part in budget.find_elements(element)
        if isinstance(part.tag, str)
        for text in (
            (part.text if part.tag not in hidden else None),
            (part.tail if part is not element else None),
        )
        if text
    )
    return _SPACE.sub(" ", " ".join(texts)).strip()


def _to_html(element: Any) -> str:
    return str(etree.tostring(element, encoding="unicode", method="html", with_tail=False))


def _join(base: str, reference: str) -> str:
    try:
        joined = urljoin(base, reference.strip()).partition("#")[0] if reference.strip() else ""
    except ValueError:
        return ""
    return joined if joined.startswith(("http://", "https://")) else ""


# -- JSON


def _read_json(body: bytes, recipe: Recipe, url: str, content_type: str | None, limits: Limits) -> ParsedFeed:
    if len(body) > MAX_PAGE:
        raise ParseError("too_large", f"{len(body)} bytes")
    try:
        data = json.loads(charset.decode(body, content_type)[0])
    except (ValueError, RecursionError) as e:
        raise ParseError("recipe_broken", "the address doesn't answer with JSON") from e
    items = json_paths.find_values(data, json_paths.parse_path(recipe.item))
    if len(items) == 1 and isinstance(items[0], list):
        items = items[0]
    entries = (_read_item(item, recipe, url, limits) for item in items[:MAX_ITEMS])
    stated = str(data.get("title", "")) if isinstance(data, dict) else ""
    title = extract_plain_text(_without_surrogates(stated))
    found = [entry for entry in entries if entry is not None]
    return _build(url, title or url, found, ParserPath.JSON, limits)


#: Common names of the parts of an entry in JSON.
_NAMES = {
    "title": ("title", "name", "headline", "subject"),
    "link": ("url", "link", "href", "permalink", "html_url"),
    "date": ("date_published", "published_at", "published", "created_at", "date", "pubDate", "updated_at"),
    "author": (),
    "body": ("summary", "description", "excerpt", "body", "content", "text"),
    "image": ("image", "thumbnail"),
}


def _read_item(item: Any, recipe: Recipe, url: str, limits: Limits) -> ParsedEntry | None:
    found = {name: _read_value(item, getattr(recipe, name), names) for name, names in _NAMES.items()}
    link = _join(url, str(found["link"] or ""))
    title = extract_plain_text(str(found["title"] or ""))[: limits.title].strip()
    if not title and not link:
        return None
    date = found["date"]
    is_number = isinstance(date, (int, float)) and not isinstance(date, bool)
    return ParsedEntry(
        guid=link or title,
        url=link or None,
        title=title or link,
        author=extract_plain_text(str(found["author"] or ""))[: limits.title],
        published=_parse_number(date) if is_number else parse_date(str(date or "")),
        updated=None,
        content="",
        summary=str(found["body"] or "")[: limits.html],
        base_url=url,
        image=_join(url, str(found["image"] or "")) or None,
    )


def _read_value(item: Any, path: str, names: tuple[str, ...]) -> Any:
    tries = (path,) if path else names
    for one in tries:
        for value in json_paths.find_values(item, json_paths.parse_path(one)):
            if isinstance(value, (str, int, float)) and value != "":
                return _without_surrogates(value) if isinstance(value, str) else value
    return None


def _parse_number(seconds: float) -> dt.datetime | None:
    try:
        return parse_epoch(float(seconds))
    except OverflowError:  # an integer of JSON may have hundreds of digits
        return None


def _without_surrogates(text: str) -> str:
    """Return a text without lone surrogates, which JSON may escape and no store accepts as UTF-8."""
    return text.encode("utf-8", "ignore").decode()
