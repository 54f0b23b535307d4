"""The first paragraphs of an article are shown also where they stand outside of the element with the rest."""

from __future__ import annotations

import pytest

from app.feeds.html.lead import PARAGRAPHS_MAX
from app.feeds.html.main_text import extract_main_text
from app.feeds.html.text import flatten_html
from app.models.reading.text_rules import TextRule

URL = "https://site.example/2026/one"
LEAD = "The harbour of the old town was closed on Monday, after a storm had moved half of its ships."
SECOND = "Nobody was hurt, but the fishermen will need weeks before they can leave for the sea again."
STORY = "".join(
    f"<p>Paragraph {n} of a long story about trees, birds and the sea, with commas.</p>" for n in range(20)
)
TITLE = "A storm moves ships in the harbour"


def make_page(before: str, *, head: str = f"<h1>{TITLE}</h1>", story: str = STORY) -> bytes:
    """Return a page whose text has an element of its own, far from what stands before it."""
    return (
        f"<html><head><title>{TITLE} - The Site</title></head><body><div class='page'>"
        f"<div class='top'><p>{LEAD.replace('Monday', 'Sunday')}</p></div>"
        f"<div class='head'>{head}</div><div class='intro'>{before}</div>"
        f"<div class='wrap'><div class='body'>{story}</div></div></div></body></html>"
    ).encode()


def read(page: bytes, title: str = "") -> str:
    return extract_main_text(page, URL, title=title).html


@pytest.mark.parametrize(
    "head",
    [
        f"<h1>{TITLE}</h1>",
        f"<h1>The Site</h1><h2>{TITLE}</h2>",
        f"<h1>The Site</h1><p>{LEAD.replace('Monday', 'Friday')}</p><h2>{TITLE}</h2>",
    ],
)
def test_paragraphs_between_heading_and_text_come_first(head: str) -> None:
    text = flatten_html(read(make_page(f"<p class='chapo'>{LEAD}</p><div><p>{SECOND}</p></div>", head=head)))
    assert text.startswith(f"{LEAD} {SECOND} Paragraph 0 of")
    assert text.count(LEAD) == 1
    assert "Sunday" not in text
    assert "Friday" not in text


def test_its_links_get_the_address_of_the_page() -> None:
    found = read(make_page(f"<p>{LEAD} <a href='../map'>See it</a>.</p>tail"))
    assert 'href="https://site.example/map"' in found
    assert "tail" not in found


def test_paragraphs_without_spaces_between_words_have_words() -> None:
    lead = "香港行政长官在各方压力下就其大宅的违章建筑问题到立法会接受质询，并向香港民众道歉。"
    story = "".join(
        f"<p>第{n}段是一个很长的故事，讲述了树木，鸟类，还有大海，以及那些风。</p>" for n in range(20)
    )
    assert flatten_html(read(make_page(f"<p>{lead}</p>", story=story))).startswith(lead)


@pytest.mark.parametrize(
    "before",
    [
        f"<figure><figcaption><p>{LEAD}</p></figcaption></figure>",
        f"<nav><p>{LEAD}</p></nav>",
        f"<ul><li><p>{LEAD}</p></li></ul>",
        f"<div class='newsletter-box'><p>{LEAD}</p></div>",
        f"<p id='photo-credit'>{LEAD}</p>",
        f"<p hidden>{LEAD}</p>",
        f"<div style='display: none'><p>{LEAD}</p></div>",
        f"<p>{LEAD.removesuffix('.')}</p>",
        f"<p><a href='/other'>{LEAD}</a></p>",
        "<p>Closed until Monday.</p>",
        f"<p>{LEAD}</p>" * (PARAGRAPHS_MAX + 1),
    ],
    ids=[
        "caption",
        "nav",
        "list",
        "newsletter",
        "credit",
        "hidden",
        "unseen",
        "no-sentence",
        "links",
        "short",
        "many",
    ],
)
def test_other_parts_of_the_page_stay_away(before: str) -> None:
    assert flatten_html(read(make_page(before))).startswith("Paragraph 0 of")


def test_a_page_without_a_heading_has_no_paragraphs_before_its_text() -> None:
    assert flatten_html(read(make_page(f"<p>{LEAD}</p>", head=""))).startswith("Paragraph 0 of")


def test_a_paragraph_that_the_text_has_is_not_repeated() -> None:
    found = flatten_html(read(make_page(f"<p>{LEAD}</p>", story=STORY + f"<p>{LEAD}</p>")))
    assert found.startswith("Paragraph 0 of")
    assert found.count(LEAD) == 1


BAD = "http://[bad/"


@pytest.mark.parametrize("head", ["", "<base href='https://cdn.example/sub/'>", f"<base href='{BAD}'>"])
@pytest.mark.parametrize("place", ["lead", "body", "object"])
def test_a_broken_link_loses_no_text(head: str, place: str) -> None:
    link = f"<a href='{BAD}'>See it</a>"
    broken = f"<object codebase='{BAD}' data='a.swf'></object>" if place == "object" else ""
    lead = f"<p>{LEAD} {link if place == 'lead' else 'See it'}.</p>{broken}"
    story = STORY.replace("of a long", f"of a {link} long", 1) if place == "body" else STORY
    page = make_page(lead, story=story).replace(b"<head>", f"<head>{head}".encode())
    assert b"<base" in page or not head
    found = read(page)
    assert flatten_html(found).startswith(f"{LEAD} See it. Paragraph 0 of")
    assert "Paragraph 19 of" in found
    assert "[bad" not in found


@pytest.mark.parametrize("base", ["https://cdn.example/sub/", "//cdn.example/sub/"])
def test_its_links_follow_the_base_of_the_page(base: str) -> None:
    story = STORY.replace("of a long", "of a <a href='body'>long</a>", 1)
    page = make_page(f"<p>{LEAD} <a href='map'>See it</a>.</p>", story=story)
    # Only the first base counts.
    bases = f"<head><base target='_top'><base href='{base}'><base href='/other/'>"
    found = read(page.replace(b"<head>", bases.encode()))
    assert 'href="https://cdn.example/sub/map"' in found
    assert 'href="https://cdn.example/sub/body"' in found


def test_a_broken_address_of_a_picture_loses_no_text() -> None:
    page = make_page("").replace(b"<head>", f"<head><meta property='og:image' content='{BAD}'>".encode())
    found = extract_main_text(page, URL)
    assert "Paragraph 19 of" in found.html
    assert found.picture is None


def test_a_rule_reads_a_page_with_broken_links_and_a_base() -> None:
    story = STORY.replace("of a long", f"of a <a href='{BAD}'>very</a> <a href='body'>long</a>", 1)
    page = make_page("", story=story).replace(b"<head>", b"<head><base href='https://cdn.example/sub/'>")
    found = extract_main_text(page, URL, rule=TextRule(1, "site.example", "div.body"))
    assert found.is_by_rule
    assert "[bad" not in found.html
    assert 'href="https://cdn.example/sub/body"' in found.html
