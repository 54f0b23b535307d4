"""Addresses: what people type, what links mean, and when two are the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.feeds import sites, urls
from app.feeds.urls import hash_page, hash_url, normalise_address, resolve, strip_tracking
from app.models.feeds.hosts import is_same_site

BARE = ["https://example.org/", "http://example.org/"]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("example.org", BARE),
        ("  Example.ORG \n", BARE),
        ("//example.org/a", ["https://example.org/a", "http://example.org/a"]),
        (
            "www.example.org/blog?x=1#top",
            ["https://www.example.org/blog?x=1", "http://www.example.org/blog?x=1"],
        ),
        ("https://example.org", ["https://example.org/"]),
        ("HTTP://EXAMPLE.org/Feed.XML", ["http://example.org/Feed.XML"]),
        ("feed:https://example.org/rss", ["https://example.org/rss"]),
        ("feed://example.org/rss", ["https://example.org/rss", "http://example.org/rss"]),
        ("feed:example.org/rss", ["https://example.org/rss", "http://example.org/rss"]),
        ("view-source:https://example.org/", ["https://example.org/"]),
        ("<https://example.org/a>", ["https://example.org/a"]),
        ("Read this: https://example.org/a, it is good.", ["https://example.org/a"]),
        ("https://example.org/c d.xml", []),
        ("http://example.org/c\u00a0d.xml", []),
        ("feed://example.org/c d.xml", []),
        ("view-source:http://example.org/c d.xml", []),
        ("//example.org/c d.xml", []),
        ("example.org/c d.xml", []),
        ("example.org is a site", BARE),
        ("https://example.org/a\nhttps://example.org/b", ["https://example.org/a"]),
        ("see example.org/blog for more", ["https://example.org/blog", "http://example.org/blog"]),
        ("bücher.example", ["https://bücher.example/", "http://bücher.example/"]),
        ("127.0.0.1:8080/x", ["https://127.0.0.1:8080/x", "http://127.0.0.1:8080/x"]),
        ("localhost:8080/feed", ["https://localhost:8080/feed", "http://localhost:8080/feed"]),
        ("http://[::1]:8080/x", ["http://[::1]:8080/x"]),
        ("https://example.org\\a", ["https://example.org/a"]),
        ("https://example.org?feed=rss2", ["https://example.org/?feed=rss2"]),
        ("https://example.org?fbclid=x", ["https://example.org/"]),
        ("https://example.org/f?utm_source=me&sig=a%2Bb&id=1#x", ["https://example.org/f?sig=a%2Bb&id=1"]),
        ("@user@social.example", ["https://social.example/@user"]),
        ("r/python", ["https://www.reddit.com/r/python/"]),
        ("someone@gmail.com", []),
        ("hello", []),
        ("", []),
        ("javascript:alert(1)", []),
        ("ftp://example.org/", []),
        ("http:example.org", []),
        ("http://", []),
    ],
)
def test_what_people_type(typed: str, expected: list[str]) -> None:
    assert normalise_address(typed) == expected


@given(st.text(max_size=300))
def test_typed_text_gives_web_addresses_or_nothing(typed: str) -> None:
    for url in normalise_address(typed):
        assert url.startswith(("http://", "https://"))
        assert not set(url) & set(' \n\t<>"')
        # What came out is an address that stays itself.
        assert normalise_address(url) == [url]


SAME = [
    ("http://example.org/feed", "https://EXAMPLE.org:443/feed/"),
    ("http://example.org", "http://example.org/#x"),
    ("http://example.org/%7Eme/a%2fb", "http://example.org/~me/a%2Fb"),
    ("http://example.org/a/./b/../c", "http://example.org/a/c"),
    ("http://bücher.example/x", "http://xn--bcher-kva.example/x"),
    ("http://example.org/f?utm_source=a&x=1", "http://example.org/f?x=1"),
    ("http://feeds.feedburner.com/Blog?format=xml", "https://feeds.feedburner.com/Blog"),
    ("http://example.org/é", "http://example.org/%C3%A9"),
    ("http://example.org./a", "http://example.org/a"),
]
DIFFERENT = [
    ("http://example.org/a", "http://example.org/A"),
    ("http://example.org/?feed=a", "http://example.org/?feed=b"),
    ("http://example.org/?a=1&b=2", "http://example.org/?b=2&a=1"),
    ("http://www.example.org/", "http://example.org/"),
    ("http://example.org:8080/", "http://example.org/"),
    ("http://u:p@example.org/", "http://example.org/"),
    ("http://example.org/a%2Fb", "http://example.org/a/b"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_addresses_of_one_feed_have_one_key(one: str, other: str) -> None:
    assert hash_url(one) == hash_url(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_addresses_of_two_feeds_have_two(one: str, other: str) -> None:
    assert hash_url(one) != hash_url(other)


_hosts = st.from_regex(r"[a-z][a-z0-9-]{0,8}\.(?:org|example|co\.uk)", fullmatch=True)
_paths = st.lists(st.sampled_from(["a", "B", "%41", "~x", "feed.xml", "..", ".", "é"]), max_size=4)


@given(_hosts, _paths, st.sampled_from(["", "?a=1", "?x=%c3%a9", "?utm_medium=rss"]))
def test_a_key_is_32_hex_digits_and_forgets_what_does_not_matter(
    host: str, path: list[str], query: str
) -> None:
    url = f"http://{host}/{'/'.join(path)}{query}"
    key = hash_url(url)
    assert len(key) == 32
    assert int(key, 16) >= 0
    assert key == hash_url(f"https://{host.upper()}:443/{'/'.join(path)}{query}#part")
    assert key == hash_url(urls._with_path(url))


@given(st.text(max_size=60), st.sampled_from(["http://e.org/a/b", "", "http://["]))
def test_resolving_never_raises_and_gives_dead_schemes_only(value: str, base: str) -> None:
    url = resolve(value, base)
    assert url is None or url.startswith(("http://", "https://", "mailto:"))
    if url:
        assert resolve(url, "") == url


def test_tracking_parameters_go_and_others_stay_as_they_are() -> None:
    assert strip_tracking("http://e.org/?a=%20+&UTM_Source=x&b&fbclid=1#f") == "http://e.org/?a=%20+&b#f"
    assert strip_tracking("http://e.org/?utm_id=1") == "http://e.org/"
    assert strip_tracking("http://e.org/a?b=utm_source") == "http://e.org/a?b=utm_source"


YT = "https://www.youtube.com/feeds/videos.xml"


@pytest.mark.parametrize(
    "url",
    [
        "http://news.example/2026/05/story/?b=2&a=1",
        "HTTPS://News.Example:443/2026/05/story?a=1&b=2",
        "https://www.news.example/2026/05/story?a=1&b=2&utm_source=rss",
        "https://m.news.example/2026/05/story?a=1&b=2#comments",
        "https://amp.news.example/2026/05/./story?&a=1&b=2&",
        "https://www.m.news.example/2026/05/%73tory?fbclid=x&a=1&b=2",
        " https://news.example/2026/05/story?a=1&b=2\n",
    ],
)
def test_addresses_of_one_page_have_one_key(url: str) -> None:
    key = hash_page("https://news.example/2026/05/story?a=1&b=2")
    assert key is not None
    assert hash_page(url) == key


@pytest.mark.parametrize("path", ["@ann/story", "web/2026/https://www.other.example/story"])
def test_page_key_ignores_labels_of_the_host_only(path: str) -> None:
    key = hash_page(f"https://news.example/{path}")
    assert key is not None
    assert hash_page(f"https://www.news.example/{path}") == key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://news.example/story", "https://news.example/Story"),
        ("https://web.example/https://www.a.example/b", "https://web.example/https://a.example/b"),
        ("https://news.example/story?id=1", "https://news.example/story?id=2"),
        ("https://news.example/?p=1", "https://news.example/"),
        ("https://news.example/story", "https://blog.news.example/story"),
        ("https://news.example/story", "https://news.example:8443/story"),
        ("https://news.example/story", "https://ann:pw@news.example/story"),
        ("https://news.example/#!/story/1", "https://news.example/#!/story/2"),
        ("https://m.example/story", "https://www.example/story"),
    ],
)
def test_addresses_of_different_pages_have_different_keys(one: str, other: str) -> None:
    assert hash_page(one) != hash_page(other)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "story",
        "mailto:ann@news.example",
        "tag:news.example,2026:1",
        "urn:x",
        "https:///story",
        "http://[/x",
    ],
)
def test_address_without_a_page_has_no_key(url: str) -> None:
    assert hash_page(url) is None


@given(st.text(max_size=60))
def test_any_text_gives_a_signed_key_or_none(text: str) -> None:
    for url in (text, f"https://{text}", f"https://news.example/{text}"):
        key = hash_page(url)
        assert key is None or -(1 << 63) <= key < 1 << 63


@pytest.mark.parametrize(
    ("page", "feed"),
    [
        ("https://www.youtube.com/channel/UCabc", f"{YT}?channel_id=UCabc"),
        ("https://www.youtube.com/channel/UCabc/shorts", f"{YT}?playlist_id=UUSHabc"),
        ("https://www.youtube.com/playlist?list=PLxyz", f"{YT}?playlist_id=PLxyz"),
        ("https://www.reddit.com/r/python/", "https://www.reddit.com/r/python/.rss"),
        ("https://old.reddit.com/user/spez", "https://www.reddit.com/user/spez/.rss"),
        ("https://github.com/torvalds", "https://github.com/torvalds.atom"),
        ("https://github.com/o/r", "https://github.com/o/r/releases.atom"),
        ("https://github.com/o/r/commits/main", "https://github.com/o/r/commits/main.atom"),
        ("https://gitlab.com/g/p/-/issues", "https://gitlab.com/g/p/-/releases.atom"),
        ("https://social.example/@me", "https://social.example/@me.rss"),
        ("https://medium.com/@me/a-post-1", "https://medium.com/feed/@me"),
        ("https://me.medium.com/post", "https://me.medium.com/feed"),
        ("https://me.tumblr.com/post/1", "https://me.tumblr.com/rss"),
        ("https://www.tumblr.com/me/1", "https://me.tumblr.com/rss"),
        ("https://me.substack.com/p/x", "https://me.substack.com/feed"),
        ("http://me.blogspot.com/2009/1.html", "http://me.blogspot.com/feeds/posts/default"),
        ("https://me.wordpress.com/tag/x/", "https://me.wordpress.com/tag/x/feed/"),
        ("https://bsky.app/profile/me.bsky.social", "https://bsky.app/profile/me.bsky.social/rss"),
        ("https://vimeo.com/staff", "https://vimeo.com/staff/videos/rss"),
        ("https://stackoverflow.com/questions/tagged/rss", "https://stackoverflow.com/feeds/tag/rss"),
        ("https://stackoverflow.com/questions/123/x", "https://stackoverflow.com/feeds/question/123"),
        ("https://unix.stackexchange.com/", "https://unix.stackexchange.com/feeds"),
        ("https://www.youtube.com/user/name", f"{YT}?user=name"),
        ("https://www.reddit.com/?sort=new", "https://www.reddit.com/.rss?sort=new"),
        ("https://github.com/o/r/commits", "https://github.com/o/r/commits.atom"),
        ("https://github.com/o/r/wiki", "https://github.com/o/r/wiki.atom"),
        ("https://github.com/o/r/tags", "https://github.com/o/r/tags.atom"),
        ("https://gitlab.com/name", "https://gitlab.com/name.atom"),
        ("https://medium.com/tag/rss", "https://medium.com/feed/tag/rss"),
        ("https://me.tumblr.com/tagged/x", "https://me.tumblr.com/tagged/x/rss"),
        ("https://me.wordpress.com/", "https://me.wordpress.com/feed/"),
        ("https://www.dailymotion.com/name", "https://www.dailymotion.com/rss/user/name"),
        ("https://lemmy.world/c/rss", "https://lemmy.world/feeds/c/rss.xml?sort=New"),
        ("https://lemmy.ml/", "https://lemmy.ml/feeds/local.xml?sort=New"),
        ("https://dev.to/t/rss", "https://dev.to/feed/tag/rss"),
        ("https://dev.to/me/post", "https://dev.to/feed/me"),
        ("https://news.ycombinator.com/item?id=1", "https://news.ycombinator.com/rss"),
        ("https://me.livejournal.com/1.html", "https://me.livejournal.com/data/rss"),
    ],
)
def test_rules_of_sites(page: str, feed: str) -> None:
    assert sites.find_feeds(page)[0] == feed


@pytest.mark.parametrize(
    "page",
    [
        *(
            "https://example.org/",
            "https://github.com/login",
            "https://www.youtube.com/",
            "https://bsky.app/",
        ),
        *(
            "https://notgithub.com/o/r",
            "https://github.com.evil.example/o/r",
            "http://[",
            "https://medium.com/",
        ),
    ],
)
def test_no_rule_for_other_pages(page: str) -> None:
    assert sites.find_feeds(page) == []


_KEY = "4f8a91c2d7e03b56a1f09c8e"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"https://pub.example/feed/{_KEY}/rss", "https://pub.example/feed/…/rss"),
        (f"https://pub.example/{_KEY}.xml", "https://pub.example/…"),
        ("https://pub.example/7d1f4c1e-93a0-4e0b-9d55-0a1b2c3d4e5f", "https://pub.example/…"),
        ("https://pub.example/rss/Zk3vUqJ8mJv1yW2c0n5b3A", "https://pub.example/rss/…"),
        ("https://pub.example/u/x7k2m9qaw8e3rzt1y6u0b", "https://pub.example/u/…"),
        ("https://pub.example/private/anna/feed", "https://pub.example/private/…/feed"),
        ("https://pub.example/Secret/a1.rss", "https://pub.example/Secret/…"),
        ("https://pub.example/token/ab12", "https://pub.example/token/…"),
        ("https://pub.example/ical/private-0123abcd/basic", "https://pub.example/ical/…/basic"),
        ("https://pub.example/feed;jsessionid=AB12?x=1", "https://pub.example/feed;jsessionid=…?x=1"),
        ("https://pub.example/rss?k=a1b2c3", "https://pub.example/rss?k=…"),
        (f"https://{_KEY}.pub.example/rss", "https://….pub.example/rss"),
        (f"https://pub.example/public/../private/{_KEY}", "https://pub.example/public/../private/…"),
    ],
)
def test_W22_keys_in_paths_parameters_and_hosts_are_secret(url: str, shown: str) -> None:
    assert (urls.is_secret(url), urls.redact_url(url)) == (True, shown)


@pytest.mark.parametrize(
    "url",
    [
        "https://blog.example/category/secret/feed/",
        "https://blog.example/tag/secret-santa-2024/feed/",
        "https://blog.example/token/rss",
        "https://blog.example/2024/05/17/the-10-best-podcasts-of-2024-so-far/feed/",
        "https://blog.example/Top10PodcastsOfTheYear.rss",
        "https://video.example/feeds/videos.xml?channel_id=UCBR8-60-B28hp2BmDPdntcQ",
        f"https://pub.example/public/shows/{_KEY}",
        "https://pub.example/d/playlist/e73c998e-6e60-432f-8610-ae210140c5b1/podcast.rss",
        "https://forum.example/rss?f=12&t=123456",
        "https://blog.example/?s=linux&keyword=rss",
        "https://a-very-long-name-of-a-site-with-words.example/feed",
    ],
)
def test_W22_common_public_addresses_are_not_secret(url: str) -> None:
    assert not urls.is_secret(url)


@pytest.mark.parametrize(
    ("url", "has_key"),
    [
        ("https://cdn.example/a.mp3?token=x1", True),
        ("https://cdn.example/a.mp3?access_token=x1", True),
        ("https://ann:pw@cdn.example/a.mp3", True),
        ("https://cdn.example/a;jsessionid=1", True),
        (f"https://cdn.example/private/{_KEY}.mp3", True),
        (f"https://cdn.example/{_KEY}/a.mp3", False),
        ("https://cdn.example/a.mp3?author=ann&tokens=3&token=", False),
        ("https://blog.example/secret/garden", False),
        ("http://[", False),
    ],
)
def test_W22_a_link_or_file_with_an_access_key_is_found(url: str, has_key: bool) -> None:
    assert urls.has_access_key(url) is has_key


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("https://a.example/f", "https://a.example/g?x=1", True),
        ("https://a.example:443/f", "https://a.example/f", True),
        ("http://a.example/f", "https://a.example/f", True),
        ("http://a.example:80/f", "https://a.example:443/f", True),
        ("https://a.example/f", "http://a.example/f", False),
        ("http://a.example:8080/f", "https://a.example/f", False),
        ("https://a.example/f", "https://b.example/f", False),
        ("https://a.example/f", "https://a.example:8443/f", False),
        ("https://a.example/f", "https://a.example:x/f", False),
    ],
)
def test_S09_what_is_sent_to_a_site_goes_to_it_alone(old: str, new: str, same: bool) -> None:
    assert is_same_site(old, new) is same
