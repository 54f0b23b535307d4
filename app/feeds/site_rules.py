"""The table of known sites: which feeds a page has by its address, by its text, or by another page.

A row only offers candidates: discovery fetches them before it shows them, so a row that is out of date costs
a request and offers nothing. ``tests/feeds/test_site_rules.py`` has an example for each row. The tests use
examples and stored pages, never the sites themselves: nothing notices when a site changes.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class SiteRule:
    """One row of the table.

    Attributes:
        hosts: hosts without ``www.`` and ``m.``, separated by spaces; ``*.name`` for the subdomains of a
            name, ``*`` for all hosts that no other row names.
        path: the start of the path as a regular expression, up to the end of a segment; ``$`` at its end:
            the whole path. Slashes at the end of an address don't count: the home page has the path "".
        feeds: addresses of feeds, best first; none: this page has no feed. ``{root}`` is the page's scheme
            and host, ``{search}`` its query with "?", and other names are the groups of the expressions.
            The group ``url`` is a complete address.
        query: expression that must occur in the query.
        text: expression that must occur in the page.
        pages: addresses to read instead, because their text names the feed.
    """

    hosts: str
    path: str
    feeds: tuple[str, ...] = ()
    query: str = ""
    text: str = ""
    pages: tuple[str, ...] = ()


_YOUTUBE = "https://www.youtube.com/feeds/videos.xml"
_CHANNEL_FEED = (_YOUTUBE + "?channel_id={id}",)
_YOUTUBE_HOSTS = "youtube.com music.youtube.com"
#: Pages of YouTube whose text names many channels, but none as its own.
_YOUTUBE_PAGE = r"/(?!(?:playlist|channel|results|feed|hashtag|gaming|premium|account)(?:/|$))[^/]+"
_REPO = r"/(?P<user>[^/]+)/(?P<repo>[^/]+?)(?:\.git)?"
_GITHUB_REPO = "https://github.com/{user}/{repo}/"
_FORGE_REPO = "{root}/{user}/{repo}"
_FORGES = "codeberg.org gitea.com code.forgejo.org"
_IS_FORGE = r"""<meta name=["']keywords["'] content=["'][^"'<>]{0,80}\b(?:gitea|forgejo)\b"""
_NO_FORGE_PAGE = (
    r"/(?:-|admin|api|assets|explore|issues|milestones|notifications|pulls|user)|/.*\.(?:rss|atom)$"
)
_GITLABS = "gitlab.com framagit.org gitlab.freedesktop.org gitlab.gnome.org invent.kde.org salsa.debian.org"
_IS_GITLAB = r"""content=["']GitLab["'] property=["']og:site_name["']"""
_NO_GITLAB_PAGE = r"/(?:explore|users|help|-|dashboard|search)|/.*\.atom$"
_GITLAB_PROJECT = r"(?P<project>/[^/]+/.+?)(?=/-(?:/|$)|$)"
_GITLAB_FEEDS = (
    "{root}{project}/-/releases.atom",
    "{root}{project}/-/tags?format=atom",
    "{root}{project}.atom",
)
_IS_MASTODON = r"""\bid=["']mastodon["']"""
_IS_PEERTUBE = r"""property=["']og:platform["'] content=["']PeerTube["']"""
_IS_DISCOURSE = r"""name=["']generator["'] content=["']Discourse """
_IS_GHOST = r"""name=["']generator["'] content=["']Ghost \d"""
_IS_WORDPRESS = r"""name=["']generator["'] content=["']WordPress """
_IS_BLOGGER = r"""content=["']blogger["'] name=["']generator["']"""
_IS_LEMMY = r"\bwindow\.isoData\s?="
_LEMMYS = (
    "beehaw.org feddit.org lemmy.ca lemmy.dbzer0.com lemmy.ml lemmy.world lemmy.zip programming.dev "
    "sh.itjust.works sopuli.xyz"
)
_STACKS = (
    "askubuntu.com mathoverflow.net serverfault.com stackapps.com stackoverflow.com superuser.com "
    "*.stackexchange.com *.stackoverflow.com"
)
_BLOGSPOTS = (
    "*.blogspot.com *.blogspot.co.uk *.blogspot.com.au *.blogspot.com.br *.blogspot.com.es *.blogspot.ca "
    "*.blogspot.de *.blogspot.fr *.blogspot.in *.blogspot.it *.blogspot.jp *.blogspot.nl *.blogspot.ru"
)
_BLOGGER_FEEDS = ("{root}/feeds/posts/default", "{root}/feeds/posts/default?alt=rss")
_LABEL = r"/search/label/(?P<label>[^/]+)"
_LABEL_FEEDS = ("{root}/feeds/posts/default/-/{label}", *_BLOGGER_FEEDS)
_FLICKR = "https://www.flickr.com/services/feeds/"
_NSID = r"\d{1,20}@N\d\d"
_APPLE_LOOKUP = ("https://itunes.apple.com/lookup?entity=podcast&id={id}",)

#: Of the rows for a page's host, the first whose path and query fit counts. The first whose text fits as well
#: counts beside it.
SITE_RULES: tuple[SiteRule, ...] = (
    # -- video and sound
    SiteRule(
        _YOUTUBE_HOSTS,
        "",
        (_YOUTUBE + "?playlist_id={list}",),
        query=r"(?:^|&)list=(?!(?:WL|LL)(?:&|$)|RD)(?P<list>[\w-]+)",
    ),
    SiteRule(
        _YOUTUBE_HOSTS,
        "/channel/UC(?P<id>[^/]+)/videos",
        (_YOUTUBE + "?playlist_id=UULF{id}", _YOUTUBE + "?channel_id=UC{id}"),
    ),
    SiteRule(
        _YOUTUBE_HOSTS,
        "/channel/UC(?P<id>[^/]+)/shorts",
        (_YOUTUBE + "?playlist_id=UUSH{id}", _YOUTUBE + "?channel_id=UC{id}"),
    ),
    SiteRule(
        _YOUTUBE_HOSTS,
        "/channel/UC(?P<id>[^/]+)/streams",
        (_YOUTUBE + "?playlist_id=UULV{id}", _YOUTUBE + "?channel_id=UC{id}"),
    ),
    SiteRule(_YOUTUBE_HOSTS, "/channel/(?P<id>UC[^/]+)", _CHANNEL_FEED),
    SiteRule(_YOUTUBE_HOSTS, "/user/(?P<name>[^/]+)", (_YOUTUBE + "?user={name}",)),
    SiteRule(
        _YOUTUBE_HOSTS,
        _YOUTUBE_PAGE,
        _CHANNEL_FEED,
        text=r'(?:"(?:externalId|externalChannelId)"\s?:\s?"|itemprop="(?:channelId|identifier)" content=")'
        r"(?P<id>UC[\w-]{22})\b",
    ),
    SiteRule(
        _YOUTUBE_HOSTS,
        _YOUTUBE_PAGE,
        _CHANNEL_FEED,
        text=r'(?:"channelId"\s?:\s?"|/channel/)(?P<id>UC[\w-]{22})\b',
    ),
    SiteRule("vimeo.com", r"/(?:\d+|features|join|log_in|upload|watch)"),
    SiteRule(
        "vimeo.com",
        "/(?P<kind>channels|groups)/(?P<name>[^/]+)",
        ("https://vimeo.com/{kind}/{name}/videos/rss",),
    ),
    SiteRule("vimeo.com", "/(?P<name>[^/]+)", ("https://vimeo.com/{name}/videos/rss",)),
    SiteRule("dailymotion.com", "/(?:embed|playlist|video)"),
    SiteRule("dailymotion.com", "/(?P<name>[^/]+)", ("https://www.dailymotion.com/rss/user/{name}",)),
    SiteRule("odysee.com", "/@(?P<name>[^/]+)", ("https://odysee.com/$/rss/@{name}",)),
    SiteRule(
        "*",
        "/(?:c|video-channels)/(?P<name>[^/]+)",
        ("{root}/feeds/videos.xml?videoChannelName={name}",),
        text=_IS_PEERTUBE,
    ),
    SiteRule(
        "*",
        "/(?:a|accounts)/(?P<name>[^/]+)",
        ("{root}/feeds/videos.xml?accountName={name}",),
        text=_IS_PEERTUBE,
    ),
    SiteRule("*", "", ("{root}/feeds/videos.xml?isLocal=true",), text=_IS_PEERTUBE),
    SiteRule(
        "soundcloud.com",
        "/[^/]+",
        ("https://feeds.soundcloud.com/users/soundcloud:users:{id}/sounds.rss",),
        text=r"\bsoundcloud:(?://)?users:(?P<id>\d+)",
    ),
    SiteRule(
        "podcasts.apple.com itunes.apple.com",
        r"(?:/[a-z]{2})?/podcast/(?:[^/]+/)?id(?P<id>\d+)",
        pages=_APPLE_LOOKUP,
    ),
    SiteRule("overcast.fm", r"/itunes(?P<id>\d+)", pages=_APPLE_LOOKUP),
    SiteRule(
        "podcasts.apple.com itunes.apple.com",
        "",
        ("{url}",),
        text=r'"feedUrl"\s?:\s?"(?P<url>https?:[^"\s<>]{1,2000})"',
    ),
    # -- pictures
    SiteRule(
        "flickr.com", "/photos/tags/(?P<tag>[^/]+)", (_FLICKR + "photos_public.gne?tags={tag}&format=atom",)
    ),
    SiteRule(
        "flickr.com",
        f"/(?:photos|people)/(?P<id>{_NSID})",
        (_FLICKR + "photos_public.gne?id={id}&format=atom",),
    ),
    SiteRule("flickr.com", f"/groups/(?P<id>{_NSID})", (_FLICKR + "groups_pool.gne?id={id}&format=atom",)),
    SiteRule(
        "flickr.com",
        "/(?:photos|people)/[^/]+",
        (_FLICKR + "photos_public.gne?id={id}&format=atom",),
        text=f'"nsid"\\s?:\\s?"(?P<id>{_NSID})"',
    ),
    SiteRule("deviantart.com", r"/(?:about|daily-deviations|join|popular|search|shop|tag|topic|users)"),
    SiteRule(
        "deviantart.com",
        "/(?P<name>[A-Za-z0-9-]+)",
        ("https://backend.deviantart.com/rss.xml?type=deviation&q=by%3A{name}+sort%3Atime+meta%3Aall",),
    ),
    SiteRule("pixelfed.social pixelfed.de pixelfed.art pixey.org", "/(?:discover|i|login|register|site)"),
    SiteRule(
        "pixelfed.social pixelfed.de pixelfed.art pixey.org",
        r"/(?:users/)?@?(?P<name>[\w.-]+)",
        ("{root}/users/{name}.atom",),
    ),
    # -- conversations
    SiteRule("reddit.com *.reddit.com", r"/(?:login|settings|submit|message|chat|premium)|/.*\.rss$"),
    SiteRule("reddit.com *.reddit.com", "$", ("https://www.reddit.com/.rss{search}",)),
    SiteRule("reddit.com *.reddit.com", "(?P<path>/.+)$", ("https://www.reddit.com{path}/.rss{search}",)),
    SiteRule("bsky.app", "/profile/(?P<name>[^/]+)", ("https://bsky.app/profile/{name}/rss",)),
    SiteRule("news.ycombinator.com", "", ("https://news.ycombinator.com/rss",)),
    SiteRule("lobste.rs", r"/t/(?P<tags>[\w,.+-]+)", ("https://lobste.rs/t/{tags}.rss",)),
    SiteRule("lobste.rs", "/newest$", ("https://lobste.rs/newest.rss",)),
    SiteRule("lobste.rs", "", ("https://lobste.rs/rss",)),
    SiteRule(_STACKS, "/questions/tagged/(?P<tag>[^/]+)", ("{root}/feeds/tag/{tag}",)),
    SiteRule(_STACKS, r"/(?:q|questions)/(?P<id>\d+)", ("{root}/feeds/question/{id}",)),
    SiteRule(_STACKS, r"/users/(?P<id>\d+)", ("{root}/feeds/user/{id}",)),
    SiteRule(_STACKS, "", ("{root}/feeds",)),
    SiteRule(_LEMMYS, "/(?P<kind>c|u)/(?P<name>[^/]+)", ("{root}/feeds/{kind}/{name}.xml?sort=New",)),
    SiteRule(_LEMMYS, "", ("{root}/feeds/local.xml?sort=New",)),
    SiteRule(
        "*",
        "/(?P<kind>c|u)/(?P<name>[^/]+)",
        ("{root}/feeds/{kind}/{name}.xml?sort=New",),
        text=_IS_LEMMY,
    ),
    SiteRule("*", "$", ("{root}/feeds/local.xml?sort=New",), text=_IS_LEMMY),
    SiteRule("*", r"/t/(?P<topic>[^/]+/\d+)", ("{root}/t/{topic}.rss",), text=_IS_DISCOURSE),
    SiteRule("*", r"/c/(?P<category>.+?/\d+)", ("{root}/c/{category}.rss",), text=_IS_DISCOURSE),
    SiteRule("*", "/tag/(?P<tag>[^/]+)", ("{root}/tag/{tag}.rss",), text=_IS_DISCOURSE),
    SiteRule("*", "/u/(?P<name>[^/]+)", ("{root}/u/{name}/activity.rss",), text=_IS_DISCOURSE),
    SiteRule("*", "", ("{root}/latest.rss",), text=_IS_DISCOURSE),
    # A profile of another server: the server where it lives has the feed.
    SiteRule(
        "*",
        r"/@(?P<name>[\w.-]+)@(?P<host>[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+)",
        ("https://{host}/@{name}.rss",),
    ),
    # Mastodon, Pleroma, Misskey and others serve it there, so the page needn't be known.
    SiteRule("*", r"/@[\w.-]+\.rss"),
    SiteRule("*", r"/@(?P<name>[\w.-]+)(?:/[^/]+)?$", ("{root}/@{name}.rss",)),
    SiteRule("*", "/tags/(?P<tag>[^/]+)$", ("{root}/tags/{tag}.rss",), text=_IS_MASTODON),
    SiteRule("*", r"/users/(?P<name>[\w.-]+)", ("{root}/@{name}.rss",), text=_IS_MASTODON),
    # -- code and packages
    SiteRule(
        "github.com",
        "/(?:about|apps|blog|collections|contact|customer-stories|enterprise|events|explore|features|issues|join"
        "|login|marketplace|new|notifications|orgs|pricing|pulls|readme|search|security|settings|signup|site"
        r"|sponsors|topics|trending)|/.*\.atom$",
    ),
    SiteRule("github.com", "/(?P<user>[^/]+)$", ("https://github.com/{user}.atom",)),
    SiteRule(
        "github.com", _REPO + "/(?:commits|tree)/(?P<branch>.+)$", (_GITHUB_REPO + "commits/{branch}.atom",)
    ),
    SiteRule(
        "github.com",
        _REPO + "/commits",
        (_GITHUB_REPO + "commits.atom", _GITHUB_REPO + "releases.atom", _GITHUB_REPO + "tags.atom"),
    ),
    SiteRule(
        "github.com",
        _REPO + "/tags",
        (_GITHUB_REPO + "tags.atom", _GITHUB_REPO + "releases.atom", _GITHUB_REPO + "commits.atom"),
    ),
    SiteRule("github.com", _REPO + "/wiki", (_GITHUB_REPO + "wiki.atom",)),
    SiteRule(
        "github.com",
        _REPO,
        (_GITHUB_REPO + "releases.atom", _GITHUB_REPO + "commits.atom", _GITHUB_REPO + "tags.atom"),
    ),
    SiteRule(_GITLABS, _NO_GITLAB_PAGE),
    SiteRule(_GITLABS, "/(?P<user>[^/]+)$", ("{root}/{user}.atom",)),
    SiteRule(_GITLABS, _GITLAB_PROJECT, _GITLAB_FEEDS),
    SiteRule("*", _NO_GITLAB_PAGE, text=_IS_GITLAB),
    SiteRule("*", "/(?P<user>[^/]+)$", ("{root}/{user}.atom",), text=_IS_GITLAB),
    SiteRule("*", _GITLAB_PROJECT, _GITLAB_FEEDS, text=_IS_GITLAB),
    SiteRule(_FORGES, _NO_FORGE_PAGE),
    SiteRule(_FORGES, "/(?P<user>[^/]+)$", ("{root}/{user}.rss",)),
    SiteRule(
        _FORGES, _REPO + "/(?:src|commits)/branch/(?P<branch>[^/]+)", (_FORGE_REPO + "/rss/branch/{branch}",)
    ),
    SiteRule(_FORGES, _REPO + "/tags", (_FORGE_REPO + "/tags.rss",)),
    SiteRule(
        _FORGES, _REPO, (_FORGE_REPO + "/releases.rss", _FORGE_REPO + "/tags.rss", _FORGE_REPO + ".rss")
    ),
    SiteRule("*", _NO_FORGE_PAGE, text=_IS_FORGE),
    SiteRule("*", "/(?P<user>[^/]+)$", ("{root}/{user}.rss",), text=_IS_FORGE),
    SiteRule(
        "*",
        _REPO,
        (_FORGE_REPO + "/releases.rss", _FORGE_REPO + "/tags.rss", _FORGE_REPO + ".rss"),
        text=_IS_FORGE,
    ),
    SiteRule(
        "git.sr.ht",
        "/(?P<user>~[^/]+)/(?P<repo>[^/]+)",
        ("https://git.sr.ht/{user}/{repo}/refs/rss.xml", "https://git.sr.ht/{user}/{repo}/log/rss.xml"),
    ),
    SiteRule(
        "sourceforge.net", "/projects/(?P<name>[^/]+)", ("https://sourceforge.net/projects/{name}/rss",)
    ),
    SiteRule(
        "launchpad.net",
        "/(?P<name>[a-z0-9][a-z0-9+.-]*)$",
        ("https://feeds.launchpad.net/{name}/announcements.atom",),
    ),
    SiteRule("pypi.org", "/project/(?P<name>[^/]+)", ("https://pypi.org/rss/project/{name}/releases.xml",)),
    SiteRule("crates.io", r"/crates/(?P<name>[\w-]+)", ("https://static.crates.io/rss/crates/{name}.xml",)),
    SiteRule("rubygems.org", r"/gems/(?P<name>[\w.-]+)", ("https://rubygems.org/gems/{name}/versions.atom",)),
    SiteRule(
        "packagist.org",
        "/packages/(?P<vendor>[^/]+)/(?P<name>[^/]+)",
        ("https://packagist.org/feeds/package.{vendor}/{name}.rss",),
    ),
    SiteRule(
        "packagist.org", "/packages/(?P<vendor>[^/]+)$", ("https://packagist.org/feeds/vendor.{vendor}.rss",)
    ),
    # -- blogs and newsletters
    SiteRule("medium.com", "/(?:feed|m|me|new-story|p|search)"),
    SiteRule("medium.com", "/tag/(?P<tag>[^/]+)", ("https://medium.com/feed/tag/{tag}",)),
    SiteRule(
        "medium.com",
        "/(?P<name>[^/@]+)/tagged/(?P<tag>[^/]+)",
        ("https://medium.com/feed/{name}/tagged/{tag}", "https://medium.com/feed/{name}"),
    ),
    SiteRule("medium.com", "/(?P<name>[^/]+)", ("https://medium.com/feed/{name}",)),
    SiteRule("*.medium.com", "", ("{root}/feed",)),
    SiteRule("tumblr.com", "/(?:dashboard|explore|login|register|search|tagged)"),
    SiteRule(
        "tumblr.com", r"/(?:blog/(?:view/)?)?(?P<name>[A-Za-z0-9-]+)", ("https://{name}.tumblr.com/rss",)
    ),
    SiteRule("*.tumblr.com", "/tagged/(?P<tag>[^/]+)", ("{root}/tagged/{tag}/rss", "{root}/rss")),
    SiteRule("*.tumblr.com", "", ("{root}/rss",)),
    SiteRule("open.substack.com", "/pub/(?P<name>[a-z0-9-]+)", ("https://{name}.substack.com/feed",)),
    SiteRule("*.substack.com", "", ("{root}/feed",)),
    SiteRule("buttondown.com buttondown.email", "/(?P<name>[^/]+)", ("https://buttondown.com/{name}/rss",)),
    SiteRule("*.hashnode.dev", "", ("{root}/rss.xml",)),
    SiteRule(_BLOGSPOTS, _LABEL, _LABEL_FEEDS),
    SiteRule(_BLOGSPOTS, "", _BLOGGER_FEEDS),
    SiteRule("*", _LABEL, _LABEL_FEEDS, text=_IS_BLOGGER),
    SiteRule("*", "", _BLOGGER_FEEDS, text=_IS_BLOGGER),
    SiteRule(
        "*.wordpress.com",
        "/(?P<kind>author|category|tag)/(?P<name>[^/]+)",
        ("{root}/{kind}/{name}/feed/", "{root}/feed/"),
    ),
    SiteRule("*.wordpress.com", "", ("{root}/feed/",)),
    SiteRule(
        "*",
        "(?P<path>(?:/[^/]+){0,3}?/(?:author|category|tag)/[^/]+)",
        ("{root}{path}/feed/",),
        text=_IS_WORDPRESS,
    ),
    SiteRule(
        "*.ghost.io", "/(?P<kind>author|tag)/(?P<name>[^/]+)", ("{root}/{kind}/{name}/rss/", "{root}/rss/")
    ),
    SiteRule("*.ghost.io", "", ("{root}/rss/",)),
    SiteRule("*", "/(?P<kind>author|tag)/(?P<name>[^/]+)", ("{root}/{kind}/{name}/rss/",), text=_IS_GHOST),
    SiteRule("*", "", ("{root}/rss/",), text=_IS_GHOST),
    SiteRule("dev.to", "/t/(?P<tag>[^/]+)", ("https://dev.to/feed/tag/{tag}",)),
    SiteRule("dev.to", "/(?P<name>[^/]+)", ("https://dev.to/feed/{name}",)),
    SiteRule("dev.to", "$", ("https://dev.to/feed",)),
    SiteRule("*.livejournal.com", "", ("{root}/data/rss", "{root}/data/atom")),
    SiteRule("*.dreamwidth.org", "", ("{root}/data/atom", "{root}/data/rss")),
    SiteRule("*.bearblog.dev", "", ("{root}/feed/", "{root}/feed/?type=rss")),
    SiteRule("*.micro.blog", "", ("{root}/feed.xml", "{root}/feed.json")),
    SiteRule("*.write.as", "", ("{root}/feed/",)),
    SiteRule("*.neocities.org", "", ("{root}/feed.xml", "{root}/rss.xml", "{root}/atom.xml")),
    # -- games, films, knowledge
    SiteRule(
        "store.steampowered.com",
        r"/(?:news/)?app/(?P<id>\d+)",
        ("https://store.steampowered.com/feeds/news/app/{id}/",),
    ),
    SiteRule("store.steampowered.com", "/news", ("https://store.steampowered.com/feeds/news.xml",)),
    SiteRule(
        "steamcommunity.com", "/groups/(?P<name>[^/]+)", ("https://steamcommunity.com/groups/{name}/rss/",)
    ),
    SiteRule(
        "steamcommunity.com",
        r"/(?:app|games)/(?P<id>\d+)",
        ("https://store.steampowered.com/feeds/news/app/{id}/",),
    ),
    SiteRule(
        "itch.io",
        r"(?P<path>/(?:books|comics|game-assets|games|tools)(?:/[^/.]+)*)$",
        ("https://itch.io{path}.xml",),
    ),
    SiteRule("*.itch.io", "/(?P<game>[^/]+)", ("{root}/{game}/devlog.rss",)),
    SiteRule("letterboxd.com", "/(?:about|film|films|journal|lists|members|search|settings|sign-in|welcome)"),
    SiteRule("letterboxd.com", r"/(?P<name>\w+)", ("https://letterboxd.com/{name}/rss/",)),
    SiteRule(
        "arxiv.org", r"/(?:archive|list)/(?P<subject>[\w.-]+)", ("https://rss.arxiv.org/atom/{subject}",)
    ),
    SiteRule(
        "*.wikipedia.org *.wikinews.org *.wiktionary.org *.wikivoyage.org",
        "/wiki/(?P<title>.+)$",
        ("{root}/w/index.php?title={title}&action=history&feed=atom",),
    ),
)
