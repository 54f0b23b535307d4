"""Rules of the admins for full texts: where the article of a site is on its pages. Pure."""

from __future__ import annotations

import dataclasses
import datetime as dt


@dataclasses.dataclass(frozen=True, slots=True)
class Trial:
    """What a rule finds on a page.

    Attributes:
        found: whether the rule's content is on the page; else, the usual way found the text.
        words: of the text. text: its beginning, without markup.
        error: the word of a failed fetch; None: it succeeded, or isn't over.
        is_over: whether the job has tried it.
    """

    address: str
    at: dt.datetime
    is_over: bool = False
    found: bool = False
    words: int = 0
    text: str = ""
    error: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class TextRule:
    """A rule for the pages of a host and its subdomains.

    Attributes:
        content: selectors of the article, separated by commas; empty: it is found as usual.
        remove: selectors of what isn't part of it.
        trial: the last page that it was tried on.
    """

    id: int
    host: str
    content: str = ""
    remove: str = ""
    trial: Trial | None = None


def list_hosts(host: str) -> list[str]:
    """Return a host and the domains above it, the nearest first, for which there may be rules."""
    labels = host.removeprefix("www.").split(".")
    return [".".join(labels[at:]) for at in range(len(labels) - 1)] or [host]
