"""Every screen there is, how one gets there, and what is shown: for the tests of all, and for pictures."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import re
from collections.abc import Callable, Iterator

from playwright.sync_api import Page, expect

from app import clock, create_app
from app.feeds.html.text import flatten_html
from app.feeds.opml import opml
from app.models.feeds.fetched import Fetched, FetchRequest
from app.models.imports.imports import ChoiceKind
from app.models.imports.opml import Outline
from app.models.reading.rules import Rule
from app.models.reading.stream import Sort, StreamKind, StreamQuery, StreamRef
from app.models.reading.text_rules import Trial
from app.services.accounts.sign_in import Client
from tests.support import corpus, importing, sharing, social, talking
from tests.support.ago import ago
from tests.support.demo import NOW, Demo
from tests.support.reader import PASSWORD

#: Browsers of other devices.
PHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_3 like Mac OS X) Version/18.3 Mobile/15E148 Safari/604.1"
TABLET = "Mozilla/5.0 (Android 14; Tablet; rv:135.0) Gecko/135.0 Firefox/135.0"

Path = str | Callable[[Demo], str]
Prepare = Callable[[Page], None]
Turn = Callable[[Page, Demo], None]


@dataclasses.dataclass(frozen=True)
class Screen:
    """One state of a screen.

    Attributes:
        path: address, or what makes it of the demo's ids.
        prepare: done there before it is looked at.
        stranger: whether nobody is logged in.
        covers: what an open menu lies upon at this moment, as a selector.
        expect: part of a console message that belongs to it.
        wide: whether phones have no such state.
        enter: done before one goes there.
        leave: done after it was looked at, for the screens that come after it.
    """

    name: str
    path: Path
    prepare: Prepare | None = None
    stranger: bool = False
    expect: str = ""
    covers: str = ""
    wide: bool = False
    enter: Turn | None = None
    leave: Turn | None = None

    @contextlib.contextmanager
    def shown(self, page: Page, demo: Demo) -> Iterator[None]:
        """Go there, and leave it at the end as it was."""
        if self.enter:
            self.enter(page, demo)
        try:
            self.show(page, demo)
            yield
        finally:
            if self.leave:
                self.leave(page, demo)

    def show(self, page: Page, demo: Demo) -> None:
        """Go there."""
        page.goto(self.path(demo) if callable(self.path) else self.path)
        if self.prepare:
            self.prepare(page)


def _list_page(demo: Demo) -> str:
    """Store the lists of a page, which the script then loads to repair a feed."""
    services, address = demo.services, "https://town.example/news"
    view = services.page_lists.find_lists(demo.ann, address, wait=0)
    page = services.gateways.page_lists.pages.find(view.key, clock.now())
    assert page is not None
    body = (corpus.root() / "html/pages/newsday.co.tt-bb404d.html").read_bytes()
    answer = Fetched(FetchRequest(address), 200, address, body=body)
    found = services.gateways.page_lists.read(page, answer)
    services.gateways.page_lists.store_page(dataclasses.replace(page, result=found), clock.now())
    return f"/add/page?address={address}&feed={min(demo.feeds.values())}"


def _lists_shown(page: Page) -> None:
    expect(page.locator("#lists fieldset")).to_be_visible()


def _pointed(page: Page) -> None:
    _lists_shown(page)
    page.locator("[data-point]").click()
    page.get_by_role("application").wait_for()
    page.keyboard.press("End")
    page.keyboard.press("PageUp")


def _help(page: Page) -> None:
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()


def _type_search(page: Page) -> None:
    page.locator("#q").press_sequentially("art ")
    expect(page.locator("#typed .typed-all")).to_be_visible()


def _type_name(page: Page) -> None:
    page.locator("#q").press("End")
    page.locator("#q").press_sequentially(" feed:")
    expect(page.locator("#typed .typed-names")).to_be_visible()


def _two_strokes(page: Page) -> None:
    # As after the first of them, but it stays.
    page.locator(".chord").evaluate("(hint) => { hint.hidden = false; }")


def _feed_made(page: Page) -> None:
    page.locator("form[action$='/apps/feed'] .btn").click()
    for shown in ("#v-secret", "#v-secret-json"):
        page.locator(shown).evaluate(
            # Before the last "/", after which the line may break.
            "(code) => { [...code.childNodes].at(-3).data = 'Zr8Tn5Yb1Hd6Jf4Gm0CapK3v9sXq7Lw2/'; }"
        )
    _calm(page)


def _noted(demo: Demo) -> str:
    """Write a note on an entry, and highlight two passages of it."""
    notes, who = demo.services.notes, demo.ann
    entry = demo.services.reading.get_article(who, demo.entry).entry
    words = flatten_html(entry.content or entry.summary).split()
    notes.set_text(who, demo.entry, "Read again before the trip.")
    notes.add_quote(who, demo.entry, " ".join(words[4:15]))
    notes.add_quote(who, demo.entry, " ".join(words[30:40]), color="blue", note="Is this still so?")
    return f"/read/notes?entry={demo.entry}"


def _more_noted(demo: Demo) -> str:
    """Write a note on another entry, highlight a passage of one, and do both in a third."""
    notes, who = demo.services.notes, demo.ann
    kinds = (
        (
            "restofworld.org-e04770",
            "plan my holiday",
            "Compare with what the agency offers before we book.",
            0,
        ),
        ("daringfireball.net-df410e", "Spotlight", "", 1),
        ("zerokspot.com-71d236", "Exploring Vancouver", "Four days are enough; ask Dana about the ferry.", 3),
    )
    for days, (feed, title, text, passages) in enumerate(kinds, 1):
        key = social.find_titled(demo, feed, title)
        entry = demo.services.reading.get_article(who, key).entry
        sentences = re.findall(r"\b[A-Z][^.]{70,160}\.", flatten_html(entry.content or entry.summary))
        with ago(days * 24 * 60):
            if text:
                notes.set_text(who, key, text)
            for color, quote in zip(("green", "yellow", "pink"), sentences[:passages], strict=False):
                notes.add_quote(who, key, " ".join(quote.split()), color=color)
    return "/read/notes"


def _run_rule(demo: Demo) -> str:
    """A rule is applied to past entries; another one is off, and for a few feeds."""
    services, user = demo.services, demo.ann
    rule = services.rules.save(user, Rule(0, "", "title:live", hide=True, tag="Live"))
    feeds, folders = tuple(list(demo.feeds.values())[:3]), (demo.folders["Design"],)
    send = services.sending.list_targets(user)[-1].id
    off = Rule(0, "Tickers of the news", "title:/live/", feeds, folders, notify=True, send=send, stop=True)
    services.rules.set_enabled(user, services.rules.save(user, off).id, False)
    services.rule_runs.begin(user, rule.id)
    return "/settings/rules"


def _end_run(demo: Demo) -> str:
    """The rule has been applied."""
    run = demo.services.rule_runs.find_run(demo.ann)
    assert run is not None
    demo.services.rule_runs.continue_run(demo.ann.user_id, run.id, seconds=30)
    return "/settings/rules"


def _stored_rule(demo: Demo) -> str:
    return f"/settings/rules/{demo.services.rules.list_rules(demo.ann).rules[-1].id}"


def _narrowed(page: Page) -> None:
    page.locator(".scope summary").click()
    page.locator("[data-narrow]").fill("d")
    expect(page.locator("#scopes li[hidden]").first).to_be_hidden()


def _rule_preview(page: Page) -> None:
    page.locator("button[value=preview]").click()
    expect(page.locator("#preview")).to_be_visible()


def _rule_menu(page: Page) -> None:
    page.locator("#rules .menu > summary").first.click()


def _unsaved(page: Page) -> None:
    page.route("**/edit", lambda route: route.fulfill(status=429, body=""))
    page.locator("#s-hidden").click()
    expect(page.locator(".unsaved button")).to_be_visible()
    page.unroute("**/edit")


def _service_refused(page: Page) -> None:
    page.locator("#f-kind").select_option("gotify")
    page.locator("#f-address").fill("https://push.example.org")
    page.locator("form[action^='/settings/sending#'] .btn.primary").click()
    expect(page.locator("[aria-invalid=true]").first).to_be_visible()


def _more_menu(page: Page) -> None:
    page.locator("#article > .bar .menu:not(.share-menu) > summary").click()
    expect(page.locator("#article > .bar a[href$='/send']")).to_be_visible()


def _site_rules(demo: Demo) -> str:
    """Rules of sites that were tried: one finds its text, one nothing, one got no page."""
    rules = demo.services.gateways.text_rules
    at, words = clock.now(), "The old roofs of Kyoto curve. So do those of Nara. "
    for host, trial in {
        "roofs.example": Trial("https://roofs.example/1", at, True, True, 812, words * 4),
        "narrow.example": Trial("https://narrow.example/a", at, True, False, 40, words),
        "gone.example": Trial("https://gone.example/" + "long-" * 30, at, True, error="http_404"),
    }.items():
        rules.rules.store_trial(rules.add(host, "main .text, #story", ".newsletter, aside").id, trial)
    return "/admin/texts"


def _selector_refused(page: Page) -> None:
    page.locator("#f-host").fill("bad.example")
    page.locator("#f-content").fill("p >")
    page.locator("form[action^='/admin/texts#'] .btn.primary").click()
    expect(page.locator("[aria-invalid=true]").first).to_be_visible()


def _server_refused(page: Page) -> None:
    page.locator("#f-address").fill("gopher://old.example")
    page.locator("#f-name").fill("ann")
    page.locator("#f-secret").fill("correct horse")
    page.locator("main form .btn.primary").click()
    expect(page.locator("[aria-invalid=true]").first).to_be_visible()


def _server_read(demo: Demo) -> str:
    return f"/imports/{importing.reading(demo.services, demo.ann).id}"


def _server_failed(demo: Demo) -> str:
    return f"/imports/{importing.unreadable(demo.services, demo.ann).id}"


def _server_preview(demo: Demo) -> str:
    return f"/imports/{importing.pulled(demo.services, demo.ann).id}"


def _archive_choices(demo: Demo) -> str:
    """An archive of Eventr has rules, saved searches and settings of feeds, too."""
    one = importing.previewed(demo.services, demo.ann)
    counts = {ChoiceKind.RULES.value: 4, ChoiceKind.SEARCHES.value: 2, ChoiceKind.FEEDS.value: 12}
    demo.services.store.database["imports"].update_one({"_id": one.id}, {"$set": {"choice_counts": counts}})
    return f"/imports/{one.id}"


def _go_to_choices(page: Page) -> None:
    page.locator("#choices").evaluate("(set) => set.scrollIntoView({block: 'center'})")


def _sendable(demo: Demo) -> str:
    return f"/entries/{demo.entry}/send"


def _made(page: Page) -> None:
    page.locator("form[action$='/apps/password'] .btn").click()
    # Another one each time: in pictures it is always the same.
    # As the page does: groups of four, so that the same password is on each picture.
    page.locator("#v-secret").evaluate(
        "(code) => [...code.children].forEach((group, i) => {"
        " group.textContent = 'k7m2pqxw4znhd93tvbr6ysca'.slice(4 * i, 4 * i + 4); })"
    )
    _calm(page)


def _operation(page: Page) -> None:
    page.locator("#listEntries form").wait_for()


def _tried(page: Page) -> None:
    expect(page.locator("#verdict [data-when=busy]")).to_be_hidden()


def _in_the_way(page: Page) -> None:
    """As behind a proxy that takes headers away."""
    page.route("**/check/authorization", lambda route: route.fulfill(json={"ok": False}))
    page.reload()
    _tried(page)
    page.unroute("**/check/authorization")


def _calm(page: Page) -> None:
    page.evaluate("() => { document.activeElement?.blur(); }")


def _jump(page: Page) -> None:
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("t")
    expect(page.locator("#jump li").first).to_be_visible()


def _tag_menu(page: Page) -> None:
    page.locator("#article > .bar .menu:not(.share-menu) > summary").click()
    page.locator("#article > .bar [data-key=tag]").click()
    expect(page.locator("#tag-name")).to_be_visible()


def _tag_edit(page: Page) -> None:
    page.locator(".line-edit summary").first.click()


def _view_menu(page: Page) -> None:
    page.locator(".pane-list summary").first.click()
    expect(page.locator(".menu-box button[value=list]")).to_be_visible()


def _marked(page: Page) -> None:
    page.keyboard.press("Shift+A")
    undo = page.locator(".toast button")
    expect(undo).to_be_visible()


def _live(page: Page) -> None:
    expect(page.locator("#live-state.on")).to_be_visible()
    expect(page.locator(".plot canvas")).to_have_count(6)


def _more(page: Page) -> None:
    page.locator(".person-more summary").first.click()


def _share_note(page: Page) -> None:
    page.keyboard.press("j")
    expect(page.locator("#share-tools .like")).to_be_visible()
    page.keyboard.press("Shift+D")
    expect(page.locator(".share-box textarea")).to_be_focused()


def _found_person(page: Page) -> None:
    page.locator("#f-address").fill("@fjodor")
    page.locator("form[action='/add'] button").first.click()
    expect(page.locator("#who-title")).to_be_visible()


def _sessions(demo: Demo) -> str:
    """Two other devices, logged in before."""
    for days, agent in ((1, PHONE), (9, TABLET)):
        with clock.set_source(lambda days=days: NOW - dt.timedelta(days=days)):
            demo.services.sign_in.log_in("ann", PASSWORD, Client("203.0.113.7", agent))
    return "/settings/sessions"


def _choose_feeds(page: Page) -> None:
    for box in page.locator("td.pick input").all()[:3]:
        box.check()
    expect(page.locator("#chosen")).to_have_text(re.compile("3"))


def _ask(page: Page) -> None:
    page.locator(".ask summary").first.click()
    expect(page.locator(".ask[open] form button").first).to_be_visible()


def _invite(page: Page) -> None:
    page.locator("form[action='/admin/invites'] button").click()
    # Another one each time: in pictures it is always the same.
    page.locator("#f-once").evaluate(
        "(field) => { field.value = `${location.origin}/signup?invite=2f7c1d90aa31e6b4`; }"
    )
    _calm(page)


def _new_password(demo: Demo) -> str:
    link = demo.services.gateways.admin_accounts.create_reset_link(demo.bob)
    return f"/new-password?token={link}"


def _old_form(page: Page) -> None:
    """As in a tab that was open for long: the form's token is of another day."""
    page.locator("[name=csrf_token]").first.evaluate("(field) => { field.value = 'x'; }")
    page.locator("#f-login").first.fill("ann")
    page.locator("[type=password]").first.fill("correct horse")
    page.locator("main form button.primary").click()
    expect(page.get_by_role("heading", level=1)).to_be_visible()


def _preview(demo: Demo) -> str:
    return f"/imports/{importing.previewed(demo.services, demo.ann).id}"


def _own_pack(demo: Demo) -> str:
    """Return a topic of which ann reads some feeds already."""
    packs, feeds = demo.services.gateways.packs, demo.services.gateways.feeds
    abouts = {
        "spoon-tamago.com-d94f47": "Japanese art, design and architecture, presented in English",
        "restofworld.org-e04770": "Technology outside the West: Asia, Africa and Latin America",
    }
    known = [(feeds.get(demo.feeds[name]), about) for name, about in abouts.items()]
    mine = [Outline(feed.url, feed.title, feed.site_url, about=about) for feed, about in known]
    rest = packs.read(packs.get("design")).feeds
    body = opml.write("Our favorites", [*rest[:2], *mine, *rest[2:8]])
    return f"/packs/{packs.add('Our favorites', 'Feeds that people on this server like best.', body).slug}"


def _running(demo: Demo) -> str:
    return f"/imports/{importing.running(demo.services, demo.ann).id}"


def _cancelled(demo: Demo) -> str:
    active = demo.services.imports.find_active(demo.ann)
    assert active is not None
    return f"/imports/{demo.services.imports.cancel(demo.ann, active.id).id}"


def _ended(demo: Demo) -> str:
    return f"/imports/{importing.ended(demo.services, demo.ann).id}"


def _person(demo: Demo) -> str:
    return f"/@{sharing.streams(demo.services, demo.feeds['spoon-tamago.com-d94f47']).handle}"


def _share(demo: Demo) -> str:
    found = sharing.streams(demo.services, demo.feeds["spoon-tamago.com-d94f47"])
    return f"/@{found.handle}/{found.share}"


def _chain(demo: Demo) -> str:
    return f"{_share(demo)}/chain"


def _talk(demo: Demo) -> str:
    return f"/shares/{talking.fill(demo.services, demo.ann, demo.entry)}/comments"


def _answering(demo: Demo) -> str:
    share = demo.services.discussion.get_share(demo.ann, talking.fill(demo.services, demo.ann, demo.entry))
    return f"{_talk(demo)}?answer={demo.services.discussion.get_thread(demo.ann, share).comments[0].id}"


def _tree_menu(page: Page) -> None:
    page.locator("#feeds a[data-feed]").last.focus()
    page.locator("#tree[data-ready]").wait_for()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".tree-more .menu-box")).to_be_visible()


def _you_menu(page: Page) -> None:
    page.locator(".you summary").click()
    expect(page.locator(".you .menu-box")).to_be_visible()


def _tree_move(page: Page) -> None:
    _tree_menu(page)
    page.locator(".tree-more .menu-box button").first.click()
    expect(page.locator(".tree-ask")).to_be_visible()


def _recent(demo: Demo) -> str:
    """Read a few entries one by one."""
    page = demo.services.reading.load_page(demo.ann, StreamQuery(StreamRef.parse("all"), Sort.NEWEST))
    for number, row in enumerate(page.rows[9:1:-1]):
        with clock.set_source(lambda minutes=74 - number * 9: NOW - dt.timedelta(minutes=minutes)):
            demo.services.reading.mark(demo.ann, [row.id], True)
    return "/read/recent"


def draw_story(demo: Demo) -> str:
    """An article in three feeds: two other entries stand for its copies."""
    page = demo.services.reading.load_page(
        demo.ann, StreamQuery(StreamRef(StreamKind.ALL), Sort.NEWEST, limit=200)
    )
    by_feed = {row.feed_id: row for row in reversed(page.rows) if row.markable and not row.sharers}
    rows = sorted(by_feed.values(), key=lambda row: row.at, reverse=True)[:3]
    members = [{"entry_id": row.id, "feed_id": row.feed_id, "seq": 1, "at": row.at} for row in rows]
    twins = demo.services.store.database["twins"]
    twins.update_one({"_id": rows[0].id}, {"$set": {"members": members, "many": True}}, upsert=True)
    return f"/read/all?sort=newest&entry={rows[0].id}"


def highlight_rows(demo: Demo) -> str:
    """A rule has highlighted some entries."""
    services, user = demo.services, demo.ann
    rule = services.rules.save(user, Rule(0, "Japan", "title:japan", highlight=True))
    run = services.rule_runs.begin(user, rule.id)
    services.rule_runs.continue_run(user.user_id, run.id, seconds=30)
    return f"/read/folder/{demo.folders['Design']}"


def _far(demo: Demo) -> str:
    """Open an entry far down its list by a link."""
    query = StreamQuery(StreamRef(StreamKind.ALL), limit=100)
    return f"/read/all?entry={demo.services.reading.load_page(demo.ann, query).rows[-1].id}"


def _no_history(demo: Demo) -> str:
    demo.services.store.database["undos"].delete_many({"user_id": demo.ann.user_id})
    return "/history"


def _history(demo: Demo) -> str:
    """Mark some feeds as read."""
    for feed_id in list(demo.feeds.values())[:4]:
        demo.services.reading.mark_all(demo.ann, StreamRef(StreamKind.FEED, feed_id))
    return "/history"


def _invited(demo: Demo) -> str:
    return f"/signup?invite={demo.services.admin_accounts.create_invite(demo.ann)}"


def _podcast(demo: Demo) -> str:
    """The newest episode, of a site that may play."""
    feed_id = demo.feeds["fallthrough.fm-726143"]
    page = demo.services.reading.load_page(demo.ann, StreamQuery(StreamRef(StreamKind.FEED, feed_id)))
    return f"/read/feed/{feed_id}?entry={page.rows[0].id}"


def _playing(page: Page) -> None:
    page.locator("#article .player .play").first.click()
    page.get_by_role("button", name="Play once").click()
    expect(page.locator(".playbar")).to_be_visible()


def _text_look(page: Page) -> None:
    page.locator("#article button[data-key=look-text]").click()
    expect(page.locator("#look:popover-open")).to_be_visible()


def _print(page: Page) -> None:
    page.emulate_media(media="print")


def _too_large(page: Page) -> None:
    page.locator("#f-name").evaluate("(field) => { field.value = 'x'.repeat(70000); field.form.submit(); }")
    expect(page.locator(".foot")).to_have_text("413")


def _pause(page: Page, demo: Demo) -> None:
    demo.services.subscriptions.set_paused(demo.ann, demo.feeds["restofworld.org-e04770"], True)


def _resume(page: Page, demo: Demo) -> None:
    demo.services.subscriptions.set_paused(demo.ann, demo.feeds["restofworld.org-e04770"], False)


_PHONE = re.compile(r"/settings/apps\?phone")


def _on_a_network(page: Page, demo: Demo) -> None:
    """The page as it is on a server that phones can reach: tests run on this machine alone."""
    base = "http://reader.lan"
    client = create_app(
        dataclasses.replace(demo.services.settings, base_url=base), demo.services
    ).test_client()
    for cookie in page.context.cookies():
        client.set_cookie(cookie["name"], cookie["value"], domain="reader.lan")
    body = client.get("/settings/apps", base_url=base).data
    page.route(_PHONE, lambda route: route.fulfill(body=body, content_type="text/html"))


def _alone(page: Page, demo: Demo) -> None:
    page.unroute(_PHONE)


#: For pictures only, in the rich account: their own tests look at them with recordings that are there.
EXTRAS: tuple[Screen, ...] = (
    Screen("player", _podcast),
    Screen("player-bar", _podcast, _playing),
    Screen(
        "article-print",
        lambda demo: f"/read/folder/{demo.folders['Design']}?entry={demo.entry}",
        _print,
        leave=lambda page, demo: page.emulate_media(media="screen"),
    ),
    Screen("text-look", lambda demo: f"/read/all?entry={demo.entry}", _text_look),
)
SCREENS: tuple[Screen, ...] = (
    Screen("landing", "/", stranger=True),
    Screen("about", "/about", stranger=True),
    Screen("signup", _invited, stranger=True),
    Screen("signup-invite", "/signup", stranger=True),
    Screen("login", "/login", stranger=True),
    Screen("missing", "/nope", expect="404"),
    Screen("offline", "/offline", stranger=True),
    Screen("shared-stream", _person, stranger=True),
    Screen("shared-one", _share, stranger=True),
    Screen("shared-chain", _chain, stranger=True),
    Screen("tree", "/read"),
    Screen("list", "/read/all"),
    Screen("article", lambda demo: f"/read/folder/{demo.folders['Design']}?entry={demo.entry}"),
    Screen("story", draw_story),
    Screen(
        "article-menu",
        lambda demo: f"/read/all?entry={demo.entry}",
        _more_menu,
        covers="#article article, #article > .bar > *:not(.menu)",
    ),
    Screen("article-far", _far),
    Screen("highlighted", highlight_rows),
    Screen("view-list", "/read/all?view=list"),
    Screen("view-expanded", lambda demo: f"/read/folder/{demo.folders['Programming']}?view=expanded"),
    Screen("view-menu", "/read/all", _view_menu, covers="#rows"),
    Screen("rows-compact", "/read/all?view=list&density=compact"),
    Screen("rows-cards", "/read/all?density=card"),
    Screen("rows-cards-wide", "/read/all?view=list&density=card"),
    Screen("today", "/read/today"),
    Screen("today-wide", "/read/today?view=list"),
    Screen("recent", _recent),
    Screen("history-empty", _no_history),
    Screen("folder", lambda demo: f"/read/folder/{demo.folders['World']}"),
    Screen("feed-list", lambda demo: f"/read/feed/{demo.feeds['bbcurdu.com-ace121']}"),
    Screen("starred", "/read/starred"),
    Screen("tag", lambda demo: f"/read/tag/{demo.services.tags.list_tags(demo.ann)[0].id}"),
    Screen(
        "tag-menu",
        lambda demo: f"/read/all?entry={demo.entry}",
        _tag_menu,
        covers=".share-menu > summary",
    ),
    Screen("tags", "/tags", _tag_edit),
    Screen("search", "/search"),
    Screen("search-found", "/search?q=japan+art"),
    Screen("search-misread", "/search?q=art+foo:bar"),
    Screen("lists", "/imports/lists"),
    Screen("statistics", "/settings/statistics"),
    Screen("search-typing", "/search", _type_search),
    Screen("search-typed-name", "/search?q=art", _type_name),
    Screen("search-near", "/search?q=art+feed:gloem"),
    Screen("search-empty", "/search?q=japan+art+tag:nowhere"),
    Screen("help", "/read/all", _help),
    Screen("help-page", "/help/keys"),
    Screen("two-strokes", "/read/all", _two_strokes),
    Screen("jump", "/read/all", _jump),
    Screen("notifications-none", "/notifications"),
    Screen("talk", _talk),
    Screen("talk-answer", _answering),
    Screen("talk-stranger", _talk, stranger=True),
    Screen("likes", lambda demo: f"/shares/{talking.fill(demo.services, demo.ann, demo.entry)}/likes"),
    Screen("notifications", "/notifications"),
    Screen("add", "/add"),
    Screen("add-words", "/add?address=science"),
    Screen("page-lists", _list_page, _lists_shown),
    Screen("page-point", _list_page, _pointed),
    Screen("feed", lambda demo: f"/feeds/{demo.feeds['restofworld.org-e04770']}"),
    Screen(
        "feed-unsaved",
        lambda demo: f"/feeds/{demo.feeds['restofworld.org-e04770']}",
        _unsaved,
        expect="429",
    ),
    Screen(
        "feed-paused",
        lambda demo: f"/feeds/{demo.feeds['restofworld.org-e04770']}",
        enter=_pause,
        leave=_resume,
    ),
    Screen("feed-failing", lambda demo: f"/feeds/{demo.feeds['bbcurdu.com-ace121']}"),
    Screen("welcome", "/welcome"),
    Screen("packs", "/packs"),
    Screen("pack", "/packs/science"),
    Screen("import-preview", _preview),
    Screen("import-running", _running),
    Screen("import-cancelled", _cancelled),
    Screen("import-report", _ended),
    Screen("imports", "/imports"),
    Screen("import-server", "/imports/server"),
    Screen("import-server-refused", "/imports/server", _server_refused, expect="400"),
    Screen("import-server-reading", _server_read),
    Screen("import-server-failed", _server_failed),
    Screen("import-server-preview", _server_preview),
    Screen("import-choices", _archive_choices, _go_to_choices),
    Screen("import-report-notes", lambda demo: f"/imports/{importing.noted(demo.services, demo.ann).id}"),
    Screen("subscriptions", "/subscriptions"),
    Screen("subscriptions-chosen", "/subscriptions", _choose_feeds),
    Screen("subscriptions-none", "/subscriptions?q=nothing+like+that"),
    Screen("tree-menu", "/read", _tree_menu, covers=".tree-foot, #tree nav > .tree"),
    Screen("tree-move", "/read", _tree_move),
    Screen("you-menu", "/read/all", _you_menu, covers="#tree nav", wide=True),
    Screen("share-target", "/share-target?title=Old+roofs+of+Kyoto&url=https%3A%2F%2Fspoon.example%2Froofs"),
    Screen("notes", _noted, _calm),
    Screen("notes-list", _more_noted),
    Screen("save", "/save"),
    Screen("save-page", "/save?title=Old+roofs&url=https%3A%2F%2Fspoon.example%2Froofs&text=They+curve."),
    Screen("settings", "/settings"),
    *(
        Screen(f"settings-{name}", f"/settings/{name}")
        for name in (
            "reading",
            "display",
            "rules",
            "sending",
            "keys",
            "sharing",
            "notifications",
            "privacy",
            "apps",
            "files",
            "account",
        )
    ),
    Screen(
        "sending-secret",
        lambda demo: f"/settings/sending?secret={demo.services.sending.list_targets(demo.ann)[-1].id}",
    ),
    Screen(
        "sending-address",
        lambda demo: f"/settings/sending?address={demo.services.sending.list_targets(demo.ann)[-1].id}",
    ),
    Screen("sending-refused", "/settings/sending", _service_refused, expect="400"),
    Screen("send", _sendable),
    Screen("settings-sessions", _sessions),
    Screen("settings-search", "/settings?q=text"),
    Screen("statistics-delete", "/settings/statistics", _ask),
    Screen("new-password", _new_password, stranger=True),
    Screen("new-password-old", "/new-password?token=gone", stranger=True, expect="403"),
    Screen("form-old", "/login", _old_form, stranger=True, expect="403"),
    Screen("rule", "/settings/rules/new?query=japan"),
    Screen("rule-narrowed", "/settings/rules/new", _narrowed),
    Screen("rule-preview", "/settings/rules/new?query=japan&do=highlight", _rule_preview),
    Screen("rules-running", _run_rule, _rule_menu),
    Screen("rules-applied", _end_run),
    Screen("rule-stored", _stored_rule),
    Screen("apps-made", "/settings/apps?app=unread", _made),
    Screen("apps-feed-made", "/settings/apps?stream=starred", _feed_made),
    Screen("apps-qr", "/settings/apps?phone", enter=_on_a_network, leave=_alone),
    Screen("apps-clients", "/settings/apps/clients"),
    Screen("api-docs", "/api/docs"),
    Screen("api-docs-operation", "/api/docs#listEntries", _operation, stranger=True),
    Screen("check", "/check", _tried),
    Screen("check-failed", "/check", _in_the_way, stranger=True),
    Screen("admin", "/admin", _live),
    Screen("admin-feeds", "/admin/feeds"),
    Screen("admin-feed", lambda demo: f"/admin/feeds/{demo.feeds['bbcurdu.com-ace121']}"),
    Screen("admin-users", "/admin/users"),
    Screen("admin-users-invite", "/admin/users", _invite),
    Screen("admin-user", lambda demo: f"/admin/users/{demo.bob}"),
    Screen("admin-jobs", "/admin/jobs"),
    Screen("admin-job", lambda demo: f"/admin/jobs/{demo.dead}"),
    Screen("admin-media", "/admin/media"),
    Screen("admin-texts", "/admin/texts"),
    Screen("admin-texts-tried", _site_rules),
    Screen("admin-texts-refused", "/admin/texts", _selector_refused, expect="400"),
    Screen("admin-server", "/admin/settings"),
    Screen("admin-server-filtered", "/admin/settings?show=changed#settings"),
    Screen("admin-cells", "/admin/cells"),
    # Last: it leaves nothing unread.
    Screen("marked", lambda demo: f"/read/folder/{demo.folders['Design']}", _marked),
    Screen("history", _history),
    Screen("caught-up-unread", lambda demo: f"/read/folder/{demo.folders['Design']}?show=unread"),
    Screen("caught-up", lambda demo: f"/read/folder/{demo.folders['Design']}"),
    # Here as they change the tree of all that is shown after them.
    Screen("people-none", "/people"),
    Screen("people", lambda demo: social.around(demo) and "/people", _more),
    Screen("people-of-somebody", "/@dana/followers", stranger=True),
    Screen("person-found", lambda demo: social.around(demo) and "/add", _found_person),
    Screen("too-large", "/people", _too_large, expect="413"),
    Screen("report", lambda demo: f"/report?share={social.shared(demo)}"),
    Screen("admin-moderation", "/admin/moderation"),
    Screen("following", lambda demo: social.passed_on(demo) and "/read/following"),
    Screen("share-note", "/read/following", _share_note),
    Screen("shares", lambda demo: social.own_shares(demo) and "/read/shares"),
    Screen("compose", "/compose"),
    Screen("discover", "/discover"),
    Screen("pack-subscribed", _own_pack),
)
