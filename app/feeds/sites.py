"""Known sites: rules that give the feed of a page without fetching the page.

Each rule is a pure function of the split address; it returns feed addresses, best first. The pages of these
sites often announce no feed, or do so only after a script has run.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import SplitResult, parse_qs, quote, urlsplit

Rule = Callable[[SplitResult, list[str]], list[str]]

_ACCOUNT = re.compile(r"@?([A-Za-z0-9_][A-Za-z0-9_.-]*)@([A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+)")
_SUBREDDIT = re.compile(r"/?(r|u|user)/([A-Za-z0-9_-]{2,})/?")
#: Mail hosts: ``user@host`` is a mail address there, so there is nothing to subscribe to.
_MAIL = frozenset(
    ["gmail.com", "googlemail.com", "outlook.com", "hotmail.com", "yahoo.com", "icloud.com", "gmx.de"]
)


def expand_shorthand(text: str) -> str | None:
    """Return the page for ``@user@host`` (fediverse) and ``r/name`` (Reddit), else None."""
    if account := _ACCOUNT.fullmatch(text):
        host = account[2].lower()
        return None if host in _MAIL else f"https://{host}/@{account[1]}"
    if reddit := _SUBREDDIT.fullmatch(text):
        kind = "r" if reddit[1] == "r" else "user"
        return f"https://www.reddit.com/{kind}/{reddit[2]}/"
    return None


def is_account(text: str) -> bool:
    """Return whether the text is ``user@host``: an account or a mail address, but not a web address."""
    return _ACCOUNT.fullmatch(text) is not None


def find_feeds(url: str) -> list[str]:
    """Return the feed addresses that a rule gives for this page; empty when no rule matches."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").removeprefix("www.").removeprefix("m.")
    except ValueError:
        return []
    path = [p for p in parts.path.split("/") if p]
    for suffix, rule in _RULES:
        if host == suffix or (suffix[0] == "." and host.endswith(suffix)):
            return rule(parts, path)
    return _mastodon(parts, path)


def _root(parts: SplitResult, path: str) -> str:
    return f"{parts.scheme}://{parts.netloc}{path}"


def _youtube(parts: SplitResult, path: list[str]) -> list[str]:
    base = "https://www.youtube.com/feeds/videos.xml"
    query = parse_qs(parts.query)
    lists = query.get("list", [])
    if lists and lists[0] not in ("WL", "LL") and not lists[0].startswith("RD"):
        return [f"{base}?playlist_id={quote(lists[0])}"]
    if path[:1] == ["channel"] and len(path) > 1 and path[1].startswith("UC"):
        channel = quote(path[1])
        tabs = {"videos": "UULF", "shorts": "UUSH", "streams": "UULV"}
        prefix = tabs.get(path[2]) if len(path) > 2 else None
        only = [f"{base}?playlist_id={prefix}{channel[2:]}"] if prefix else []
        return [*only, f"{base}?channel_id={channel}"]
    if path[:1] == ["user"] and len(path) > 1:
        return [f"{base}?user={quote(path[1])}"]
    return []


_CHANNEL = re.compile(
    r"""(?:"(?:externalId|channelId)"\s?:\s?"|/channel/|itemprop="(?:channelId|identifier)" content=")"""
    r"""(UC[A-Za-z0-9_-]{22})\b"""
)


def find_feeds_on_page(url: str, text: str) -> list[str]:
    """Return the feed addresses that a page of a known site states in its data, not in its address."""
    try:
        host = (urlsplit(url).hostname or "").removeprefix("www.").removeprefix("m.")
    except ValueError:
        return []
    for site, pattern, feed in _PAGE_RULES:
        if host == site and (match := pattern.search(text)):
            return [feed.format(match[1])]
    return []


_REDDIT_PLAIN = frozenset(["login", "settings", "submit", "message", "chat", "premium"])


def _reddit(parts: SplitResult, path: list[str]) -> list[str]:
    if path and (path[0] in _REDDIT_PLAIN or path[-1].endswith(".rss")):
        return []
    query = f"?{parts.query}" if parts.query else ""
    return ["https://www.reddit.com/" + "".join(f"{quote(p)}/" for p in path) + ".rss" + query]


_GITHUB_PLAIN = frozenset(
    [
        *(
            "about",
            "apps",
            "blog",
            "collections",
            "contact",
            "customer-stories",
            "enterprise",
            "events",
            "explore",
        ),
        *(
            "features",
            "issues",
            "join",
            "login",
            "marketplace",
            "new",
            "notifications",
            "orgs",
            "pricing",
            "pulls",
        ),
        *("readme", "search", "security", "settings", "signup", "site", "sponsors", "topics", "trending"),
    ]
)


def _github(parts: SplitResult, path: list[str]) -> list[str]:
    if not path or path[0].lower() in _GITHUB_PLAIN or path[-1].endswith(".atom"):
        return []
    if len(path) == 1:
        return [f"https://github.com/{quote(path[0])}.atom"]
    repo = f"https://github.com/{quote(path[0])}/{quote(path[1])}"
    feeds = {name: f"{repo}/{name}.atom" for name in ("releases", "commits", "tags")}
    if path[2:3] == ["commits"] or path[2:3] == ["tree"]:
        branch = "/".join(quote(p) for p in path[3:])
        return [f"{repo}/commits/{branch}.atom"] if branch else [feeds["commits"]]
    if path[2:3] == ["wiki"]:
        return [f"{repo}/wiki.atom"]
    first = path[2] if len(path) > 2 and path[2] in feeds else "releases"
    return [feeds[first], *(url for name, url in feeds.items() if name != first)]


def _gitlab(parts: SplitResult, path: list[str]) -> list[str]:
    if not path or path[0] in ("explore", "users", "help", "-", "dashboard", "search"):
        return []
    if len(path) == 1:
        return [_root(parts, f"/{quote(path[0])}.atom")]
    project = "/".join(quote(p) for p in (path[: path.index("-")] if "-" in path else path))
    return [
        _root(parts, f"/{project}/-/releases.atom"),
        _root(parts, f"/{project}/-/tags?format=atom"),
        _root(parts, f"/{project}.atom"),
    ]


def _mastodon(parts: SplitResult, path: list[str]) -> list[str]:
    """Return the feed of ``/@user`` on any host: Mastodon and related servers serve it there."""
    if not path or not re.fullmatch(r"@[A-Za-z0-9_.-]+", path[0]) or len(path) > 2:
        return []
    return [] if path[0].endswith(".rss") else [_root(parts, f"/{path[0]}.rss")]


def _medium(parts: SplitResult, path: list[str]) -> list[str]:
    host = parts.hostname or ""
    if host.removeprefix("www.") != "medium.com":
        return [_root(parts, "/feed")]
    if not path or path[0] in ("feed", "m", "search", "me", "new-story"):
        return []
    if path[0] == "tag" and len(path) > 1:
        return [f"https://medium.com/feed/tag/{quote(path[1])}"]
    return [f"https://medium.com/feed/{quote(path[0], safe='@')}"]


def _tumblr(parts: SplitResult, path: list[str]) -> list[str]:
    if (parts.hostname or "").removeprefix("www.") == "tumblr.com":
        name = path[1] if path[:1] == ["blog"] and len(path) > 1 else (path[0] if path else "")
        plain = name in ("", "explore", "dashboard", "login", "register", "search", "tagged")
        return [] if plain else [f"https://{quote(name)}.tumblr.com/rss"]
    if path[:1] == ["tagged"] and len(path) > 1:
        return [_root(parts, f"/tagged/{quote(path[1])}/rss"), _root(parts, "/rss")]
    return [_root(parts, "/rss")]


def _at_root(*paths: str) -> Rule:
    return lambda parts, _: [_root(parts, p) for p in paths]


def _wordpress(parts: SplitResult, path: list[str]) -> list[str]:
    if path[:1] in (["category"], ["tag"], ["author"]) and len(path) > 1:
        return [_root(parts, f"/{path[0]}/{quote(path[1])}/feed/"), _root(parts, "/feed/")]
    return [_root(parts, "/feed/")]


def _bluesky(parts: SplitResult, path: list[str]) -> list[str]:
    return (
        [f"https://bsky.app/profile/{quote(path[1], safe=':')}/rss"]
        if path[:1] == ["profile"] and len(path) > 1
        else []
    )


def _vimeo(parts: SplitResult, path: list[str]) -> list[str]:
    if not path or path[0].isdigit() or path[0] in ("watch", "features", "upload", "log_in", "join"):
        return []
    return [f"https://vimeo.com/{'/'.join(quote(p) for p in path[:2])}/videos/rss"]


def _dailymotion(parts: SplitResult, path: list[str]) -> list[str]:
    plain = not path or path[0] in ("video", "playlist", "embed")
    return [] if plain else [f"https://www.dailymotion.com/rss/user/{quote(path[0])}"]


def _stackexchange(parts: SplitResult, path: list[str]) -> list[str]:
    if path[:2] == ["questions", "tagged"] and len(path) > 2:
        return [_root(parts, f"/feeds/tag/{quote(path[2])}")]
    if path[:1] == ["questions"] and len(path) > 1 and path[1].isdigit():
        return [_root(parts, f"/feeds/question/{path[1]}")]
    return [_root(parts, "/feeds")]


def _lemmy_like(parts: SplitResult, path: list[str]) -> list[str]:
    kinds = {"c": "c", "u": "u"}
    if len(path) > 1 and path[0] in kinds:
        return [_root(parts, f"/feeds/{path[0]}/{quote(path[1], safe='@')}.xml?sort=New")]
    return [_root(parts, "/feeds/local.xml?sort=New")]


def _devto(parts: SplitResult, path: list[str]) -> list[str]:
    if path[:1] == ["t"] and len(path) > 1:
        return [f"https://dev.to/feed/tag/{quote(path[1])}"]
    return [f"https://dev.to/feed/{quote(path[0])}"] if path else ["https://dev.to/feed"]


def _hackernews(parts: SplitResult, path: list[str]) -> list[str]:
    return ["https://news.ycombinator.com/rss"]


#: Host (or ``.suffix`` for its subdomains) → rule; the first match wins.
_RULES: list[tuple[str, Rule]] = [
    ("youtube.com", _youtube),
    ("music.youtube.com", _youtube),
    ("reddit.com", _reddit),
    (".reddit.com", _reddit),
    ("github.com", _github),
    ("gitlab.com", _gitlab),
    ("medium.com", _medium),
    (".medium.com", _medium),
    ("tumblr.com", _tumblr),
    (".tumblr.com", _tumblr),
    (".substack.com", _at_root("/feed")),
    (".blogspot.com", _at_root("/feeds/posts/default", "/feeds/posts/default?alt=rss")),
    (".wordpress.com", _wordpress),
    ("bsky.app", _bluesky),
    ("vimeo.com", _vimeo),
    ("dailymotion.com", _dailymotion),
    ("stackoverflow.com", _stackexchange),
    (".stackexchange.com", _stackexchange),
    ("superuser.com", _stackexchange),
    ("serverfault.com", _stackexchange),
    ("askubuntu.com", _stackexchange),
    ("dev.to", _devto),
    ("news.ycombinator.com", _hackernews),
    ("lobste.rs", _at_root("/rss")),
    ("lemmy.world", _lemmy_like),
    ("lemmy.ml", _lemmy_like),
    (".ghost.io", _at_root("/rss/")),
    (".livejournal.com", _at_root("/data/rss", "/data/atom")),
    (".dreamwidth.org", _at_root("/data/atom", "/data/rss")),
    (".bearblog.dev", _at_root("/feed/", "/feed/?type=rss")),
    (".micro.blog", _at_root("/feed.xml", "/feed.json")),
    (".write.as", _at_root("/feed/")),
    (".neocities.org", _at_root("/feed.xml", "/rss.xml", "/atom.xml")),
]

#: Host → what to find in the text of its pages, and the feed that it names; the first match wins.
_PAGE_RULES: list[tuple[str, re.Pattern[str], str]] = [
    ("youtube.com", _CHANNEL, "https://www.youtube.com/feeds/videos.xml?channel_id={}"),
]
