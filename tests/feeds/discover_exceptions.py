"""Pages of the corpus on which discovery and the page's reference differ, each with its reason."""

from __future__ import annotations

#: What the reference lists that is no feed: WordPress's REST API of a single post (not of its feed).
REST_API = "/wp-json/"

#: Path → (addresses found besides the announced ones, why).
MORE: dict[str, tuple[list[str], str]] = {
    "html/no-feed/medium.com-52a381.html": (
        ["https://medium.com/feed/@ckirchoff"],
        "the page announces nothing; the rule for Medium knows its author's feed",
    ),
}
