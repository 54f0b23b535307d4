"""The table of known sites: an example for each row, no look-alike hosts, and expressions that end soon."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest

from app.feeds import sites
from app.feeds.discover import find_candidates
from app.feeds.site_rules import SITE_RULES, SiteRule
from app.models.feeds.discovery import Source

ID = "UCabcdefghijklmnopqrstuv"
YT = "https://www.youtube.com/feeds/videos.xml"
FLICKR = "https://www.flickr.com/services/feeds/photos_public.gne"
GH = "https://github.com/o/r"
MASTODON = "<div class='app-holder' id='mastodon'>"
PEERTUBE = '<meta property="og:platform" content="PeerTube" />'
DISCOURSE = '<meta name="generator" content="Discourse 3.4.0.beta1 - https://github.com/discourse/discourse">'
GHOST = '<meta name="generator" content="Ghost 5.80">'
WORDPRESS = '<meta name="generator" content="WordPress 6.5" />'
BLOGGER = "<meta content='blogger' name='generator'/>"
LEMMY = "<script>window.isoData = {}</script>"
GITLAB = '<meta content="GitLab" property="og:site_name">'
FORGE = '<meta name="keywords" content="git,forge,forgejo">'

#: (page, its text, feeds by the rules)
EXAMPLES: list[tuple[str, str, list[str]]] = [
    # -- video and sound
    ("https://www.youtube.com/playlist?list=PLx-_y", "", [f"{YT}?playlist_id=PLx-_y"]),
    ("https://www.youtube.com/playlist?list=WL", "", []),
    ("https://www.youtube.com/watch?v=a&list=RDx", "", []),
    ("https://www.youtube.com/channel/UCa/videos", "", [f"{YT}?playlist_id=UULFa", f"{YT}?channel_id=UCa"]),
    ("https://m.youtube.com/channel/UCa/shorts", "", [f"{YT}?playlist_id=UUSHa", f"{YT}?channel_id=UCa"]),
    ("https://youtube.com/channel/UCa/streams", "", [f"{YT}?playlist_id=UULVa", f"{YT}?channel_id=UCa"]),
    ("https://music.youtube.com/channel/UCa", "", [f"{YT}?channel_id=UCa"]),
    ("https://www.youtube.com/user/name/videos", "", [f"{YT}?user=name"]),
    (
        "https://www.youtube.com/@me",
        f'"channelId":"UC{"x" * 22}" "externalId":"{ID}"',
        [f"{YT}?channel_id={ID}"],
    ),
    ("https://www.youtube.com/shorts/a", f'{{"channelId":"{ID}"}}', [f"{YT}?channel_id={ID}"]),
    (
        "https://www.youtube.com/watch?v=a&list=PLx",
        f'<meta itemprop="identifier" content="{ID}">',
        [f"{YT}?playlist_id=PLx", f"{YT}?channel_id={ID}"],
    ),
    ("https://www.youtube.com/results?search_query=x", f'{{"channelId":"{ID}"}}', []),
    ("https://vimeo.com/123456", "", []),
    ("https://vimeo.com/channels/staffpicks/1", "", ["https://vimeo.com/channels/staffpicks/videos/rss"]),
    ("https://vimeo.com/staff/videos", "", ["https://vimeo.com/staff/videos/rss"]),
    ("https://www.dailymotion.com/video/x1", "", []),
    ("https://www.dailymotion.com/name", "", ["https://www.dailymotion.com/rss/user/name"]),
    ("https://odysee.com/@me:a", "", ["https://odysee.com/$/rss/@me:a"]),
    (
        "https://tube.example/c/blender_channel/videos",
        PEERTUBE,
        ["https://tube.example/feeds/videos.xml?videoChannelName=blender_channel"],
    ),
    ("https://tube.example/a/me", PEERTUBE, ["https://tube.example/feeds/videos.xml?accountName=me"]),
    ("https://tube.example/", PEERTUBE, ["https://tube.example/feeds/videos.xml?isLocal=true"]),
    (
        "https://soundcloud.com/me/track",
        '<meta content="soundcloud://users:4242">',
        ["https://feeds.soundcloud.com/users/soundcloud:users:4242/sounds.rss"],
    ),
    ("https://podcasts.apple.com/us/podcast/a-show/id1234", "", []),
    ("https://overcast.fm/itunes1234/a-show", "", []),
    (
        "https://podcasts.apple.com/de/podcast/a-show/id1234",
        r'{"feedUrl":"https:\/\/pod.example\/f?a=1\u0026b=2"}',
        ["https://pod.example/f?a=1&b=2"],
    ),
    # -- pictures
    ("https://www.flickr.com/photos/tags/red%20fox/", "", [f"{FLICKR}?tags=red%20fox&format=atom"]),
    ("https://www.flickr.com/photos/12345678@N00/1/", "", [f"{FLICKR}?id=12345678@N00&format=atom"]),
    (
        "https://www.flickr.com/groups/99@N22/pool",
        "",
        ["https://www.flickr.com/services/feeds/groups_pool.gne?id=99@N22&format=atom"],
    ),
    ("https://www.flickr.com/photos/me/", '{"nsid":"12345@N04"}', [f"{FLICKR}?id=12345@N04&format=atom"]),
    ("https://www.deviantart.com/tag/fox", "", []),
    (
        "https://www.deviantart.com/me/gallery",
        "",
        ["https://backend.deviantart.com/rss.xml?type=deviation&q=by%3Ame+sort%3Atime+meta%3Aall"],
    ),
    ("https://pixelfed.social/site/about", "", []),
    ("https://pixelfed.social/me", "", ["https://pixelfed.social/users/me.atom"]),
    # -- conversations
    ("https://www.reddit.com/login/", "", []),
    ("https://www.reddit.com/?sort=new", "", ["https://www.reddit.com/.rss?sort=new"]),
    ("https://old.reddit.com/r/python/", "", ["https://www.reddit.com/r/python/.rss"]),
    ("https://bsky.app/profile/me.bsky.social", "", ["https://bsky.app/profile/me.bsky.social/rss"]),
    ("https://bsky.app/profile/did:plc:abc/post/1", "", ["https://bsky.app/profile/did:plc:abc/rss"]),
    ("https://news.ycombinator.com/item?id=1", "", ["https://news.ycombinator.com/rss"]),
    ("https://lobste.rs/t/web", "", ["https://lobste.rs/t/web.rss"]),
    ("https://lobste.rs/newest", "", ["https://lobste.rs/newest.rss"]),
    ("https://lobste.rs/s/abc/title", "", ["https://lobste.rs/rss"]),
    ("https://stackoverflow.com/questions/tagged/c%2b%2b", "", ["https://stackoverflow.com/feeds/tag/c++"]),
    ("https://pt.stackoverflow.com/q/12", "", ["https://pt.stackoverflow.com/feeds/question/12"]),
    ("https://mathoverflow.net/users/7/me", "", ["https://mathoverflow.net/feeds/user/7"]),
    ("https://unix.stackexchange.com/", "", ["https://unix.stackexchange.com/feeds"]),
    ("https://lemmy.world/c/rss@lemmy.ml", "", ["https://lemmy.world/feeds/c/rss@lemmy.ml.xml?sort=New"]),
    ("https://lemmy.ml/", "", ["https://lemmy.ml/feeds/local.xml?sort=New"]),
    ("https://forum.example/u/me", LEMMY, ["https://forum.example/feeds/u/me.xml?sort=New"]),
    ("https://forum.example/", LEMMY, ["https://forum.example/feeds/local.xml?sort=New"]),
    ("https://talk.example/t/a-topic/12/3", DISCOURSE, ["https://talk.example/t/a-topic/12.rss"]),
    ("https://talk.example/c/a/b/5", DISCOURSE, ["https://talk.example/c/a/b/5.rss"]),
    ("https://talk.example/tag/rss", DISCOURSE, ["https://talk.example/tag/rss.rss"]),
    ("https://talk.example/u/me/summary", DISCOURSE, ["https://talk.example/u/me/activity.rss"]),
    ("https://talk.example/", DISCOURSE, ["https://talk.example/latest.rss"]),
    ("https://social.example/@me@other.example", "", ["https://other.example/@me.rss"]),
    ("https://social.example/@me.rss", "", []),
    ("https://social.example/@me/123", "", ["https://social.example/@me.rss"]),
    ("https://social.example/tags/caf%C3%A9", MASTODON, ["https://social.example/tags/caf%C3%A9.rss"]),
    ("https://blog.example/tags/a", "<body>", []),
    ("https://social.example/users/me", MASTODON, ["https://social.example/@me.rss"]),
    # -- code and packages
    ("https://github.com/login", "", []),
    ("https://github.com/o", "", ["https://github.com/o.atom"]),
    (f"{GH}/tree/feat/x", "", [f"{GH}/commits/feat/x.atom"]),
    (f"{GH}/commits", "", [f"{GH}/commits.atom", f"{GH}/releases.atom", f"{GH}/tags.atom"]),
    (f"{GH}/tags", "", [f"{GH}/tags.atom", f"{GH}/releases.atom", f"{GH}/commits.atom"]),
    (f"{GH}/wiki/Home", "", [f"{GH}/wiki.atom"]),
    (f"{GH}.git", "", [f"{GH}/releases.atom", f"{GH}/commits.atom", f"{GH}/tags.atom"]),
    ("https://gitlab.com/explore", "", []),
    ("https://salsa.debian.org/me", "", ["https://salsa.debian.org/me.atom"]),
    (
        "https://gitlab.com/g/h/p/-/issues/1",
        "",
        [
            *("https://gitlab.com/g/h/p/-/releases.atom", "https://gitlab.com/g/h/p/-/tags?format=atom"),
            "https://gitlab.com/g/h/p.atom",
        ],
    ),
    ("https://git.example/explore", GITLAB, []),
    ("https://git.example/me", GITLAB, ["https://git.example/me.atom"]),
    (
        "https://git.example/g/p",
        GITLAB,
        [
            *("https://git.example/g/p/-/releases.atom", "https://git.example/g/p/-/tags?format=atom"),
            "https://git.example/g/p.atom",
        ],
    ),
    ("https://codeberg.org/explore/repos", "", []),
    ("https://codeberg.org/o", "", ["https://codeberg.org/o.rss"]),
    ("https://gitea.com/o/r/src/branch/main/x.py", "", ["https://gitea.com/o/r/rss/branch/main"]),
    ("https://codeberg.org/o/r/tags", "", ["https://codeberg.org/o/r/tags.rss"]),
    (
        "https://code.forgejo.org/o/r/issues",
        "",
        [f"https://code.forgejo.org/o/r{end}" for end in ("/releases.rss", "/tags.rss", ".rss")],
    ),
    ("https://git.example/user/login", FORGE, []),
    ("https://git.example/o", FORGE, ["https://git.example/o.rss"]),
    (
        "https://git.example/o/r",
        FORGE,
        [f"https://git.example/o/r{end}" for end in ("/releases.rss", "/tags.rss", ".rss")],
    ),
    (
        "https://git.sr.ht/~me/r/tree",
        "",
        ["https://git.sr.ht/~me/r/refs/rss.xml", "https://git.sr.ht/~me/r/log/rss.xml"],
    ),
    ("https://sourceforge.net/projects/p/files/", "", ["https://sourceforge.net/projects/p/rss"]),
    ("https://launchpad.net/p", "", ["https://feeds.launchpad.net/p/announcements.atom"]),
    ("https://pypi.org/project/p/1.0/", "", ["https://pypi.org/rss/project/p/releases.xml"]),
    ("https://crates.io/crates/p_q/1.0", "", ["https://static.crates.io/rss/crates/p_q.xml"]),
    ("https://rubygems.org/gems/p", "", ["https://rubygems.org/gems/p/versions.atom"]),
    ("https://packagist.org/packages/v/p", "", ["https://packagist.org/feeds/package.v/p.rss"]),
    ("https://packagist.org/packages/v/", "", ["https://packagist.org/feeds/vendor.v.rss"]),
    # -- blogs and newsletters
    ("https://medium.com/m/signin", "", []),
    ("https://medium.com/tag/rss", "", ["https://medium.com/feed/tag/rss"]),
    (
        "https://medium.com/pub/tagged/rss",
        "",
        ["https://medium.com/feed/pub/tagged/rss", "https://medium.com/feed/pub"],
    ),
    ("https://medium.com/@me/a-post-1", "", ["https://medium.com/feed/@me"]),
    ("https://me.medium.com/a-post-1", "", ["https://me.medium.com/feed"]),
    ("https://www.tumblr.com/explore/today", "", []),
    ("https://www.tumblr.com/blog/view/me", "", ["https://me.tumblr.com/rss"]),
    (
        "https://me.tumblr.com/tagged/x",
        "",
        ["https://me.tumblr.com/tagged/x/rss", "https://me.tumblr.com/rss"],
    ),
    ("https://me.tumblr.com/post/1", "", ["https://me.tumblr.com/rss"]),
    ("https://open.substack.com/pub/me/p/x", "", ["https://me.substack.com/feed"]),
    ("https://me.substack.com/p/x", "", ["https://me.substack.com/feed"]),
    ("https://buttondown.com/me/archive/x/", "", ["https://buttondown.com/me/rss"]),
    ("https://me.hashnode.dev/x", "", ["https://me.hashnode.dev/rss.xml"]),
    (
        "http://me.blogspot.de/search/label/red%20fox",
        "",
        [
            *(
                "http://me.blogspot.de/feeds/posts/default/-/red%20fox",
                "http://me.blogspot.de/feeds/posts/default",
            ),
            "http://me.blogspot.de/feeds/posts/default?alt=rss",
        ],
    ),
    (
        "http://me.blogspot.com/2009/1.html",
        "",
        ["http://me.blogspot.com/feeds/posts/default", "http://me.blogspot.com/feeds/posts/default?alt=rss"],
    ),
    (
        "https://blog.example/search/label/x",
        BLOGGER,
        [
            *("https://blog.example/feeds/posts/default/-/x", "https://blog.example/feeds/posts/default"),
            "https://blog.example/feeds/posts/default?alt=rss",
        ],
    ),
    (
        "https://blog.example/1.html",
        BLOGGER,
        ["https://blog.example/feeds/posts/default", "https://blog.example/feeds/posts/default?alt=rss"],
    ),
    (
        "https://me.wordpress.com/author/x/",
        "",
        ["https://me.wordpress.com/author/x/feed/", "https://me.wordpress.com/feed/"],
    ),
    ("https://me.wordpress.com/2024/x", "", ["https://me.wordpress.com/feed/"]),
    ("https://blog.example/en/tag/x/page/2/", WORDPRESS, ["https://blog.example/en/tag/x/feed/"]),
    ("https://me.ghost.io/tag/x/", "", ["https://me.ghost.io/tag/x/rss/", "https://me.ghost.io/rss/"]),
    ("https://me.ghost.io/a-post/", "", ["https://me.ghost.io/rss/"]),
    ("https://blog.example/author/x/", GHOST, ["https://blog.example/author/x/rss/"]),
    ("https://blog.example/a-post/", GHOST, ["https://blog.example/rss/"]),
    ("https://dev.to/t/rss", "", ["https://dev.to/feed/tag/rss"]),
    ("https://dev.to/me/post", "", ["https://dev.to/feed/me"]),
    ("https://dev.to/", "", ["https://dev.to/feed"]),
    (
        "https://me.livejournal.com/1.html",
        "",
        ["https://me.livejournal.com/data/rss", "https://me.livejournal.com/data/atom"],
    ),
    (
        "https://me.dreamwidth.org/",
        "",
        ["https://me.dreamwidth.org/data/atom", "https://me.dreamwidth.org/data/rss"],
    ),
    (
        "https://me.bearblog.dev/x",
        "",
        ["https://me.bearblog.dev/feed/", "https://me.bearblog.dev/feed/?type=rss"],
    ),
    ("https://me.micro.blog/", "", ["https://me.micro.blog/feed.xml", "https://me.micro.blog/feed.json"]),
    ("https://me.write.as/x", "", ["https://me.write.as/feed/"]),
    (
        "https://me.neocities.org/",
        "",
        [f"https://me.neocities.org/{name}.xml" for name in ("feed", "rss", "atom")],
    ),
    # -- games, films, knowledge
    (
        "https://store.steampowered.com/app/400/Portal/",
        "",
        ["https://store.steampowered.com/feeds/news/app/400/"],
    ),
    ("https://store.steampowered.com/news/", "", ["https://store.steampowered.com/feeds/news.xml"]),
    ("https://steamcommunity.com/groups/g/members", "", ["https://steamcommunity.com/groups/g/rss/"]),
    ("https://steamcommunity.com/app/400", "", ["https://store.steampowered.com/feeds/news/app/400/"]),
    ("https://itch.io/games/tag-rss", "", ["https://itch.io/games/tag-rss.xml"]),
    ("https://me.itch.io/game/devlog/1/x", "", ["https://me.itch.io/game/devlog.rss"]),
    ("https://letterboxd.com/film/x/", "", []),
    ("https://letterboxd.com/me/films/", "", ["https://letterboxd.com/me/rss/"]),
    ("https://arxiv.org/list/cs.AI/recent", "", ["https://rss.arxiv.org/atom/cs.AI"]),
    (
        "https://en.m.wikipedia.org/wiki/Caf%C3%A9_%26_bar",
        "",
        ["https://en.m.wikipedia.org/w/index.php?title=Caf%C3%A9_%26_bar&action=history&feed=atom"],
    ),
]


@pytest.mark.parametrize(
    ("page", "text", "feeds"), EXAMPLES, ids=[f"{n}-{e[0]}" for n, e in enumerate(EXAMPLES)]
)
def test_rule_gives_the_feeds_of_a_page(page: str, text: str, feeds: list[str]) -> None:
    found = find_candidates(f"<html><head>{text}</head></html>".encode() if text else b"", page)
    assert [c.url for c in found if c.source is Source.SITE] == feeds


def _list_used_rules() -> set[SiteRule]:
    used: set[SiteRule] = set()
    for page, text, _ in EXAMPLES:
        rules = sites.find_rules(page)
        for group in ([r for r in rules if not r.text], [r for r in rules if r.text]):
            used |= set([r for r in group if sites.match_rule(r, page, text) is not None][:1])
    return used


def test_every_rule_has_an_example() -> None:
    assert set(SITE_RULES) - _list_used_rules() == set()


@pytest.mark.parametrize(
    "template", ["{host}.evil.example", "evil-{host}", "evil{host}", "evil.example/{host}"]
)
def test_rules_know_no_look_alike_hosts(template: str) -> None:
    anywhere = set(sites.find_rules("https://evil.example/"))
    assert anywhere
    for page, _, _ in EXAMPLES:
        host = (urlsplit(page).hostname or "").removeprefix("www.").removeprefix("m.")
        if host.endswith(".example"):
            continue
        found = set(sites.find_rules(f"https://{template.format(host=host)}/x"))
        # "evilme.tumblr.com" is somebody's blog on Tumblr.
        assert found == anywhere or host.count(".") > 1, (template, host)


@pytest.mark.parametrize("page", ["http://[", "", "not an address", "https:///x"])
def test_rules_accept_any_text(page: str) -> None:
    assert (
        sites.find_feeds(page) == sites.find_feeds_on_page(page, GHOST) == sites.find_source_pages(page) == []
    )


@pytest.mark.parametrize(
    "page", ["https://itunes.apple.com/us/podcast/id12", "https://overcast.fm/itunes12/x"]
)
def test_directory_names_the_feed_of_a_podcast(page: str) -> None:
    assert sites.find_source_pages(page) == ["https://itunes.apple.com/lookup?entity=podcast&id=12"]


@pytest.mark.parametrize("value", ["https://[", r"https:\u00zz", "https://"])
def test_broken_addresses_in_a_page_are_no_candidates(value: str) -> None:
    text = f'<script>{{"feedUrl":"{value}"}}</script>'.encode()
    assert [c for c in find_candidates(text, "https://podcasts.apple.com/x") if c.source is Source.SITE] == []


def test_X08_program_behind_a_page_is_sought_at_its_start_only() -> None:
    for space, feeds in ((1000, ["https://blog.example/rss/"]), (1 << 18, [])):
        assert sites.find_feeds_on_page("https://blog.example/a/b", " " * space + GHOST) == feeds
    data = " " * (1 << 18) + f'"externalId":"{ID}"'
    assert sites.find_feeds_on_page("https://www.youtube.com/@me", data) == [f"{YT}?channel_id={ID}"]


def test_X08_no_expression_of_the_table_backtracks() -> None:
    pieces = (
        "/a",
        "/-",
        "a",
        "a.",
        "@a",
        "/@a.",
        "<meta name='keywords' content='",
        'content="',
        "git,",
        "12",
        "&list=",
    )
    for rule in SITE_RULES:
        for piece in pieces:
            re.match(f"(?:{rule.path})(?:/|$)", piece * (2000 // len(piece)))
            re.search(rule.query, piece * (2000 // len(piece)))
            re.search(rule.text, piece * (100_000 // len(piece)))
