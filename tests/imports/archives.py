"""Archives as other programs write them, after their own code."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

from app.feeds.opml import opml
from app.models.imports.opml import Outline

HOST = "https://feeds.example"
#: What must never arrive anywhere: texts in archives belong to nobody.
HOSTILE = '<p>Text</p><script>alert(1)</script><img src=x onerror="alert(2)">'


def zipped(members: Mapping[str, bytes | str], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a ZIP archive."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, body in members.items():
            archive.writestr(name, body)
    return out.getvalue()


def google_item(
    name: str,
    number: int,
    *,
    old: bool = False,
    read: bool | None = False,
    starred: bool = False,
    labels: Sequence[str] = (),
    feed: str | None = None,
) -> dict[str, Any]:
    """Return an entry as FreshRSS exports it, ``old``: as its versions before 1.21 did."""
    link = f"{HOST}/{name}/{number}"
    item: dict[str, Any] = {
        "id": f"guid-{name}-{number}" if old else f"tag:google.com,2005:reader/item/{number:016x}",
        "timestampUsec": "1600000000000000",
        "published": 1_600_000_000,
        "title": f"{name} {number}",
        "alternate": [{"href": link, "type": "text/html"}],
        "content": {"content": HOSTILE},
        "origin": {
            "streamId": "feed/3",
            "title": f"Feed {name}",
            "htmlUrl": HOST,
            "feedUrl": f"{HOST}/{name}" if feed is None else feed,
        },
    }
    states = ["user/-/state/com.google/reading-list"]
    if read is not None:
        states.append(f"user/-/state/com.google/{'read' if read else 'unread'}")
    if starred:
        states.append("user/-/state/com.google/starred")
    states += [f"user/-/label/{label}" for label in labels]
    item["categories"] = [*states, "a category of the feed"]
    if old:
        item |= {"author": "", "updated": 1_600_000_000}
    else:
        item |= {
            "guid": f"guid-{name}-{number}",
            "crawlTimeMsec": "1600000000000",
            "canonical": [{"href": link}],
        }
    return item


def google_json(kind: str, items: Sequence[Mapping[str, Any]]) -> str:
    """Return the JSON file of FreshRSS, whose items begin on lines of their own."""
    head = {
        "id": f"user/ann/state/org.freshrss/{kind}",
        "title": 'List of "items": [',
        "author": "ann",
        "items": [],
    }
    begun = json.dumps(head, indent=4).rstrip(" ]}\n\r\t")
    return begun + "\n" + ",\n".join(json.dumps(item, indent=4) for item in items) + "\n]}\n"


def freshrss(
    folders: Mapping[str, tuple[str, ...]],
    starred: Sequence[Mapping[str, Any]],
    entries: Mapping[str, Sequence[Mapping[str, Any]]],
) -> bytes:
    """Return FreshRSS's export: name of a feed → its folders, starred entries, name → entries of the feed."""
    outlines = [Outline(f"{HOST}/{name}", name, None, path) for name, path in folders.items()]
    return zipped(
        {
            "feeds_2024-05-06.opml.xml": opml.write("FreshRSS", outlines),
            "starred_2024-05-06.json": google_json("starred", starred),
            **{
                f"feed_2024-05-06_1_{number}.json": google_json(f"feed/{number}", items)
                for number, items in enumerate(entries.values())
            },
        }
    )


def ttrss(articles: Sequence[Mapping[str, str]]) -> bytes:
    """Return the export of tt-rss's plugin ``import_export``, not packed."""
    rows = []
    for article in articles:
        fields = "".join(
            f"<{name}><![CDATA[{value.replace(']]>', ']]]]><![CDATA[>')}]]></{name}>"
            for name, value in article.items()
        )
        rows.append(f"<article>{fields}</article>")
    return f'<articles schema-version="139">{"".join(rows)}</articles>'.encode()


def ttrss_article(name: str, number: int, *, marked: str = "1", labels: str = "", feed: bool = True) -> Any:
    """Return an article as tt-rss writes it: its own ids, labels as JSON with colors."""
    return {
        "guid": f"SHA1:{number:040x}",
        "title": f"{name} {number}",
        "content": HOSTILE + " ]]> more",
        "marked": marked,
        "published": "0",
        "score": "0",
        "note": "",
        "link": f"{HOST}/{name}/{number}",
        "tag_cache": "many,tags,of,the,feed",
        "label_cache": labels,
        "feed_title": f"Feed {name}" if feed else "",
        "feed_url": f"{HOST}/{name}" if feed else "",
        "updated": "2024-05-06 07:08:09",
    }


def ttrss_zip(articles: Sequence[Mapping[str, Any]], batch: int = 1000) -> bytes:
    """Return the export of tt-rss's plugin ``data_migration``: articles with numbers for booleans."""
    batches = [articles[at : at + batch] for at in range(0, len(articles), batch)]
    return zipped(
        {
            f"{number:08}.json": json.dumps({"version": 1, "schema-version": 146, "articles": some})
            for number, some in enumerate(batches)
        }
    )


def pocket_csv(links: Sequence[str]) -> str:
    """Return Pocket's export of 2025."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["title", "url", "time_added", "tags", "status"])
    writer.writerows([["A, title", link, "1600000000", "a|b", "archive"] for link in links])
    return out.getvalue()


POCKET_HTML = """<!DOCTYPE html>
<html>
\t<!--So long and thanks for all the fish-->
\t<head>
\t\t<meta http-equiv="Content-Type" content="text/html; charset=UTF-8" />
\t\t<title>Pocket Export</title>
\t</head>
\t<body>
\t\t<h1>Unread</h1>
\t\t<ul>
\t\t\t<li><a href="https://a.example/1" time_added="1684913522" tags="">One</a></li>
\t\t\t<li><a href="ftp://a.example/" time_added="1684913346" tags="x"></a></li>
\t\t</ul>
\t\t<h1>Read Archive</h1>
\t\t<ul>
\t\t\t<li><a href="https://a.example/2" time_added="1684913346" tags="tag1,tag2">Two &amp; more</a></li>
\t\t</ul>
\t</body>
</html>
"""
INSTAPAPER = (
    "URL,Title,Selection,Folder\nhttps://a.example/1,One,,Archive\nhttps://a.example/2,Two,,Unread\n",
    "URL,Title,Selection,Folder,Timestamp,Tags\n"
    'https://a.example/1,One,,Starred,1783091650,"[""coding""]"\nhttps://a.example/2,Two,,Unread,1,[]\n',
)


def gzipped(body: bytes) -> bytes:
    """Return a body as ``gzencode`` packs it."""
    return gzip.compress(body)
