"""Recordings: nothing loads before a click and a question, and the player stays while one reads on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from app import clock
from app.models.accounts.actor import Actor
from tests.browser.conftest import PHONE, WIDE, Site, log_in
from tests.browser.test_list_looks import edges
from tests.support.reader import add_user, pull, rss
from tests.support.recordings import LENGTH, RecordingSite

Visit = Callable[..., Page]
Eventually = Callable[..., object]
FEED = "https://pod.example/feed"
NOTES = ("00:00 Intro", "00:30 Trees and birds", "01:10 End")


@pytest.fixture
def recordings() -> RecordingSite:
    return RecordingSite()


@pytest.fixture
def listen(visit: Visit, recordings: RecordingSite) -> Visit:
    """``visit``, with a site that sends recordings."""
    return lambda **wish: _serve(visit(routes=True, **wish), recordings)


def _serve(page: Page, recordings: RecordingSite) -> Page:
    recordings.serve(page)
    page.goto("/read/all")
    return page


def _feed(url: str, text: str = "") -> bytes:
    text = text or "".join(f"&lt;p&gt;{line}&lt;/p&gt;" for line in NOTES)
    items = "".join(
        f"<item><title>Episode {n}</title><guid>{n}</guid><link>https://pod.example/{n}</link>"
        f"<description>{text}</description><itunes:duration>{LENGTH}</itunes:duration>"
        f'<enclosure url="{url}/{n}.wav" type="audio/wav" length="960044"/>'
        f"<pubDate>Mon, {10 + n} Nov 2025 10:00:00 GMT</pubDate></item>"
        for n in (1, 2)
    )
    return (
        f'<rss version="2.0" xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd"><channel>'
        f"<title>The Tree Podcast</title>{items}</channel></rss>"
    ).encode()


@pytest.fixture
def ann(site: Site, recordings: RecordingSite) -> Actor:
    actor = add_user(site.services)
    feed = site.services.subscriptions.subscribe(actor, FEED).subscription.feed_id
    pull(site.services, [feed], {FEED: _feed(recordings.url)})
    return actor


def _open(page: Page, title: str = "Episode 1") -> None:
    page.locator(".row h2 a", has_text=title).click()
    expect(page.locator("#entry-title")).to_have_text(title)


def _position(site: Site, actor: Actor, recordings: RecordingSite, name: str = "1.wav") -> int:
    return site.services.playback.find_start(actor, f"{recordings.url}/{name}")


def test_H07_a_recording_asks_its_site_for_nothing_before_the_answer(
    site: Site, listen: Visit, ann: Actor, recordings: RecordingSite
) -> None:
    page = listen(login="ann")
    _open(page)
    box = page.locator("#article .player")
    expect(box).to_contain_text("From cdn.example")
    expect(box).to_contain_text("2:00")
    page.wait_for_load_state("networkidle")
    box.get_by_role("button", name="Play: Episode 1").click()
    expect(page.get_by_role("dialog")).to_contain_text("That site sees your IP address.")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator(".playbar")).to_have_count(0)
    assert recordings.requested == []
    box.get_by_role("button", name="Play: Episode 1").click()
    page.get_by_role("button", name="Play once").click()
    expect(page.locator(".playbar").get_by_role("button", name="Pause: Episode 1")).to_be_visible()
    assert set(recordings.requested) == {"/1.wav"}
    # "Once" is for this recording.
    _open(page, "Episode 2")
    page.get_by_role("button", name="Play: Episode 2").click()
    expect(page.get_by_role("dialog")).to_be_visible()


def test_a_site_that_is_always_allowed_can_be_asked_about_again(
    site: Site, listen: Visit, ann: Actor, recordings: RecordingSite
) -> None:
    page = listen(login="ann")
    _open(page)
    with page.expect_response("**/playback/sites"):
        page.locator("#article .player .play").click()
        page.get_by_role("button", name=re.compile("^Always play from")).click()
    _open(page, "Episode 2")
    page.get_by_role("button", name="Play: Episode 2").click()
    expect(page.locator(".playbar")).to_contain_text("Episode 2")
    page.goto("/settings/privacy")
    expect(page.locator(".lines")).to_contain_text(recordings.host)
    page.get_by_role("button", name="Ask again").click()
    expect(page.get_by_text("You haven't allowed any site yet.")).to_be_visible()
    page.goto("/read/all")
    _open(page)
    page.locator("#article .player .play").click()
    # This page hasn't played this episode yet.
    expect(page.get_by_role("dialog")).to_be_visible()


def _allow(site: Site, actor: Actor, recordings: RecordingSite) -> None:
    site.services.accounts.set_preferences(actor, {"media_sites": [recordings.host]})


def test_the_player_goes_on_while_the_page_shows_other_things(
    site: Site, listen: Visit, ann: Actor, recordings: RecordingSite
) -> None:
    _allow(site, ann, recordings)
    page = listen(login="ann")
    _open(page)
    page.keyboard.press("i")
    bar = page.locator(".playbar")
    expect(bar.get_by_role("button", name="Pause: Episode 1")).to_be_visible()
    asked = len(recordings.requested)
    _open(page, "Episode 2")
    page.keyboard.press("g")
    page.keyboard.press("s")
    expect(page.locator(".pane-list h1")).to_have_text("Starred")
    expect(bar.get_by_role("button", name="Pause: Episode 1")).to_be_visible()
    assert len(recordings.requested) == asked, "another list doesn't load it again"
    page.keyboard.press(">")
    page.keyboard.press(">")
    page.keyboard.press("<")
    expect(bar.get_by_label("Position")).to_have_attribute(
        "aria-valuetext", re.compile(r"^0:4[5-9] of 2:00$")
    )
    page.keyboard.press("i")
    expect(bar.get_by_role("button", name="Play: Episode 1")).to_be_visible()
    # A page of its own: the recording stands where it stood, and the site is not asked before the next click.
    page.goto("/settings/reading")
    expect(bar.get_by_label("Position")).to_have_attribute(
        "aria-valuetext", re.compile(r"^0:4[5-9] of 2:00$")
    )
    expect(bar.get_by_role("button", name="Play: Episode 1")).to_be_visible()
    page.wait_for_load_state("networkidle")
    bar.get_by_role("button", name="Play: Episode 1").click()
    expect(bar.get_by_role("button", name="Pause: Episode 1")).to_be_visible()
    page.evaluate("location.assign('/subscriptions')")
    page.wait_for_url("**/subscriptions")
    expect(bar.get_by_role("button", name="Pause: Episode 1")).to_be_visible()
    bar.get_by_role("button", name="Close the player").click()
    expect(bar).to_have_count(0)
    page.reload()
    expect(page.locator("html.js")).to_be_visible()
    expect(bar).to_have_count(0)


def test_a_player_ends_with_its_session(
    site: Site, listen: Visit, ann: Actor, recordings: RecordingSite
) -> None:
    _allow(site, ann, recordings)
    page = listen(login="ann")
    _open(page)
    page.keyboard.press("i")
    bar = page.locator(".playbar")
    expect(bar.get_by_role("button", name="Pause: Episode 1")).to_be_visible()
    # The session ends elsewhere, so nothing in this tab hears of it; then someone logs in.
    page.goto("/settings/reading")
    page.wait_for_load_state("networkidle")
    page.context.clear_cookies()
    log_in(page, "ann")
    page.goto("/subscriptions")
    expect(page.locator("html.js")).to_be_visible()
    page.wait_for_function("() => sessionStorage.getItem('eventr.player') === null")
    expect(bar).to_have_count(0)


@pytest.mark.parametrize("size", [WIDE, PHONE])
def test_whole_texts_in_a_list_have_their_players(
    site: Site, listen: Visit, ann: Actor, recordings: RecordingSite, size: tuple[int, int]
) -> None:
    page = listen(login="ann", size=size)
    page.goto("/read/all?view=expanded")
    boxes = page.locator("#rows .row .player")
    expect(boxes).to_have_count(2)
    expect(boxes.first.locator("strong")).to_have_text("Episode 2")
    assert not recordings.requested
    # As in an article: the name beside the button, and the download at the end.
    box = edges(boxes.first)
    button, name, tool = (edges(boxes.first.locator(part)) for part in (".play", ".what", ".tool"))
    assert button["right"] <= name["left"] < name["right"] <= tool["left"]
    assert box["right"] - tool["right"] < 20
    pane = page.locator(".pane-list")
    assert pane.evaluate("(e) => e.scrollWidth - e.clientWidth") == 0
    boxes.nth(1).locator(".play").click()
    page.get_by_role("button", name="Play once").click()
    expect(page.locator(".playbar .now a")).to_have_text("Episode 1")
    expect(boxes.nth(1)).to_have_class(re.compile(r"\bcurrent\b"))
    # The key plays the recording of the selected entry, too.
    page.get_by_role("button", name="Close the player").click()
    page.keyboard.press("j")
    page.keyboard.press("i")
    page.get_by_role("button", name="Play once").click()
    expect(page.locator(".playbar .now a")).to_have_text("Episode 2")


def test_another_device_goes_on_where_this_one_stopped(
    site: Site, listen: Visit, ann: Actor, recordings: RecordingSite, eventually: Eventually
) -> None:
    _allow(site, ann, recordings)
    page = listen(login="ann")
    _open(page)
    page.locator("#article .player .play").click()
    bar = page.locator(".playbar")
    expect(bar.get_by_role("button", name="Pause: Episode 1")).to_be_visible()
    page.keyboard.press(">")
    expect(bar.get_by_label("Position")).to_have_attribute("aria-valuetext", re.compile("^0:3"))
    page.keyboard.press("i")
    eventually(lambda: 30 <= _position(site, ann, recordings) < 60)
    phone = listen(login="ann", size=PHONE)
    _open(phone)
    phone.locator("#article .player .play").click()
    there = phone.locator(".playbar").get_by_label("Position")
    expect(there).to_have_attribute("aria-valuetext", re.compile(r"^0:[345]\d of 2:00$"))
    # At the end the recording is heard, and begins anew the next time.
    there.fill("120")
    eventually(lambda: _position(site, ann, recordings) == 0)


def test_moments_in_the_notes_are_chapters(
    site: Site, listen: Visit, ann: Actor, recordings: RecordingSite
) -> None:
    _allow(site, ann, recordings)
    page = listen(login="ann")
    _open(page)
    page.locator(".prose").get_by_role("link", name="01:10").click()
    bar = page.locator(".playbar")
    position = bar.get_by_label("Position")
    expect(position).to_have_attribute("aria-valuetext", re.compile(r"^1:1\d of 2:00$"))
    chapters = bar.get_by_label("Chapters")
    assert chapters.locator("option").all_inner_texts() == [
        "–",
        "0:00 Intro",
        "0:30 Trees and birds",
        "1:10 End",
    ]
    expect(chapters).to_have_value("70")
    chapters.select_option("30")
    expect(position).to_have_attribute("aria-valuetext", re.compile(r"^0:3\d of 2:00$"))
    assert len(page.context.pages) == 1, "the link opens no tab"


def test_chapters_of_the_feed_are_chapters(site: Site, listen: Visit, recordings: RecordingSite) -> None:
    ann = add_user(site.services)
    feed = site.services.subscriptions.subscribe(ann, FEED).subscription.feed_id
    psc = (
        '<psc:chapters xmlns:psc="http://podlove.org/simple-chapters"><psc:chapter start="00:00:00.000"'
        ' title="Intro"/><psc:chapter start="00:00:30" title="Trees &amp; birds"/></psc:chapters></item>'
    )
    body = _feed(recordings.url, "Notes without times.").replace(b"</item>", psc.encode())
    pull(site.services, [feed], {FEED: body})
    _allow(site, ann, recordings)
    page = listen(login="ann")
    _open(page)
    page.locator(".prose").get_by_role("link", name="0:30").click()
    bar = page.locator(".playbar")
    expect(bar.get_by_label("Chapters")).to_have_value("30")
    options = bar.get_by_label("Chapters").locator("option").all_inner_texts()
    assert options == ["–", "0:00 Intro", "0:30 Trees & birds"]


def test_chapters_of_a_file_come_while_the_episode_plays(
    site: Site, listen: Visit, recordings: RecordingSite
) -> None:
    ann = add_user(site.services)
    feed = site.services.subscriptions.subscribe(ann, FEED).subscription.feed_id
    link = (
        '<podcast:chapters xmlns:podcast="https://podcastindex.org/namespace/1.0"'
        ' url="https://pod.example/c.json" type="application/json+chapters"/></item>'
    )
    pull(site.services, [feed], {FEED: _feed(recordings.url, "Notes.").replace(b"</item>", link.encode())})
    _allow(site, ann, recordings)
    page = listen(login="ann")
    _open(page)
    page.keyboard.press("i")
    bar = page.locator(".playbar")
    expect(bar.get_by_role("button", name=re.compile("^Pause"))).to_be_visible()
    expect(bar.get_by_label("Chapters")).to_be_hidden()
    rows = {"chapters": [{"startTime": 0, "title": "Intro"}, {"startTime": 30, "title": "Trees & <b>"}]}
    body = json.dumps(rows).encode()
    site.services.gateways.chapters.store_chapters("https://pod.example/c.json", body, clock.now())
    options = bar.get_by_label("Chapters").locator("option")
    expect(options).to_have_text(["–", "0:00 Intro", "0:30 Trees & <b>"])
    # From the next opening on they are below the notes, too.
    page.reload()
    page.locator(".prose li", has_text="Trees & <b>").get_by_role("link", name="0:30").click()
    expect(bar.get_by_label("Chapters")).to_have_value("30")


def test_speed_sleep_and_the_keys_of_the_system(
    site: Site, listen: Visit, ann: Actor, recordings: RecordingSite
) -> None:
    _allow(site, ann, recordings)
    page = listen(login="ann")
    page.clock.install()
    _open(page)
    page.keyboard.press("i")
    bar = page.locator(".playbar")
    bar.get_by_label("Speed").select_option("1.5")
    expect(bar.get_by_role("button", name="Pause: Episode 1")).to_be_visible()
    told = page.evaluate("[navigator.mediaSession.metadata.title, navigator.mediaSession.metadata.artist]")
    assert told == ["Episode 1", "The Tree Podcast"]
    bar.get_by_label("Sleep timer").select_option("5")
    page.clock.run_for(5 * 60 * 1000 + 1)
    expect(bar.get_by_role("button", name="Play: Episode 1")).to_be_visible()
    expect(bar.get_by_label("Sleep timer")).to_have_value("")
    page.reload()
    expect(bar.get_by_label("Speed")).to_have_value("1.5")


def test_without_scripts_the_browsers_own_player_loads_nothing_by_itself(
    site: Site, listen: Visit, ann: Actor, recordings: RecordingSite
) -> None:
    page = listen(login="ann", js=False)
    page.locator(".row h2 a", has_text="Episode 1").click()
    player = page.locator("#article audio")
    expect(player).to_be_visible()
    expect(player).to_have_attribute("preload", "none")
    expect(page.locator("#article .player")).to_contain_text("Then that site sees your IP address.")
    expect(page.locator("#article .play")).to_be_hidden()
    page.wait_for_load_state("networkidle")
    assert recordings.requested == []


@pytest.mark.parametrize(
    "size", [WIDE, (1024, 768), (720, 450), (390, 844)], ids=["wide", "1024", "720", "phone"]
)
def test_the_bar_covers_nothing_and_fits(
    site: Site, listen: Visit, ann: Actor, recordings: RecordingSite, size: tuple[int, int]
) -> None:
    _allow(site, ann, recordings)
    page = listen(login="ann", size=size)
    _open(page)
    page.locator("#article .player .play").click()
    bar = page.locator(".playbar")
    expect(bar.get_by_role("button", name="Pause: Episode 1")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    if size[0] < 700:
        # A phone's screen is for the text: the choices are folded.
        assert (bar.bounding_box() or {})["height"] <= 100
        bar.get_by_role("button", name="More").click()
    expect(bar.get_by_label("Speed")).to_be_visible()
    top = bar.bounding_box()["y"]  # type: ignore[index]
    article = page.locator("#article").bounding_box() or {}
    assert article["y"] + article["height"] <= top + 1
    for control in bar.locator("button, select, input").all():
        box = control.bounding_box()
        if box is None:
            continue
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= size[0]
        assert control.evaluate(
            "(one) => { const b = one.getBoundingClientRect();"
            " const top = document.elementFromPoint(b.x + b.width / 2, b.y + b.height / 2);"
            " return one === top || one.contains(top) || one.closest('label')?.contains(top); }"
        )


_INSIDE = (
    "<p>Before</p><audio src='https://cdn.example/in.wav' title='A sound'></audio>"
    "<video poster='https://cdn.example/p.jpg' title='A film'>"
    "<source src='https://cdn.example/film.wav' type='video/mp4'></video>"
    "<iframe src='https://www.youtube.com/embed/dQw4w9WgXcQ' title='A talk'></iframe>"
    "<iframe src='https://open.spotify.com/embed/episode/4rOoJ6Egrf8K2IrywzwOMk'></iframe><p>After</p>"
)


@pytest.fixture
def inside(site: Site) -> Actor:
    """A user with an entry whose text has all kinds of players."""
    actor = add_user(site.services)
    feed = site.services.subscriptions.subscribe(actor, FEED).subscription.feed_id
    pull(site.services, [feed], {FEED: rss("Texts", [("A text", _INSIDE)])})
    return actor


def test_H07_players_inside_a_text_play_where_they_stand(
    site: Site, listen: Visit, inside: Actor, recordings: RecordingSite, eventually: Eventually
) -> None:
    page = listen(login="ann")
    asked: list[str] = []
    page.on("request", lambda r: asked.append(r.url) if not r.url.startswith((site.url, "data:")) else None)
    page.route(re.compile("youtube-nocookie|spotify"), lambda route: route.fulfill(body="A player"))
    _open(page, "A text")
    text = page.locator("#article .prose")
    titles = text.locator(".player strong, .embed strong")
    assert titles.all_inner_texts() == ["A sound", "A film", "A talk", "Player of Spotify"]
    page.wait_for_load_state("networkidle")
    assert asked == [], "pictures come through this server, the rest after a click"
    text.get_by_role("button", name="Play: A sound").click()
    page.get_by_role("button", name=re.compile("^Always")).click()
    expect(text.get_by_role("button", name="Pause: A sound")).to_be_visible()
    expect(page.locator(".playbar")).to_contain_text("A sound")
    text.get_by_role("button", name="Play: A film").click()
    film = text.locator("video[controls]:not(.nojs)")
    expect(film).to_be_focused()
    eventually(lambda: film.evaluate("(film) => film.currentTime > 0"))
    expect(text.get_by_role("button", name="Play: A sound")).to_be_visible()
    film.evaluate("(film) => { film.currentTime = 40; film.pause(); }")
    eventually(lambda: 40 <= _position(site, inside, recordings, "film.wav") < 45)
    # Each player asks about its own site, and plays in its own place.
    text.get_by_role("button", name="Play: A talk").click()
    expect(page.get_by_role("dialog")).to_contain_text("Play from YouTube?")
    page.get_by_role("button", name="Play once").click()
    frame = text.locator("iframe")
    expect(frame).to_have_attribute("src", "https://www.youtube-nocookie.com/embed/dQw4w9WgXcQ")
    expect(text.locator(".embed")).to_have_count(2)
    assert not [url for url in asked if "spotify" in url]


def test_players_inside_a_text_are_links_for_programs(site: Site, inside: Actor) -> None:
    (entry,) = site.services.store.database["entries"].find({}, {"_id": 1})
    found = site.services.reading.get_article(inside, entry["_id"]).entry
    html = found.content or found.summary
    assert 'href="https://cdn.example/in.wav" type="audio/*">▶ A sound</a>' in html
    assert "<audio" not in html
    assert "<iframe" not in html
