"""How much of a hostile or careless feed is read (security.md X02, X04, X09)."""

from __future__ import annotations

import dataclasses

from app.config import Settings


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one parse; sizes in bytes or characters.

    Attributes:
        body: longest document, also what a gzip'd one may unpack to.
        items: entries read; the rest is left out and the feed flagged as truncated. Where most are dated
            later than the one before, those at the end are read.
        html: longest content or summary; longer is cut and flagged.
        title: longest title, author or category.
        depth, attributes: of XML elements; beyond them the document is refused.
        fallback: longest document given to the slow parser.
        hops: shares in the chain of an entry; one with more has none.
    """

    body: int = 10 << 20
    items: int = 2000
    html: int = 1 << 20
    title: int = 1024
    depth: int = 128
    attributes: int = 64
    fallback: int = 2 << 20
    hops: int = 100

    @classmethod
    def from_settings(cls, settings: Settings) -> Limits:
        """Take the limits from the settings."""
        return cls(
            body=settings.fetch_max_feed,
            items=settings.feed_max_items,
            html=settings.entry_max_html,
            title=settings.title_max,
            depth=settings.xml_max_depth,
            attributes=settings.xml_max_attributes,
            fallback=settings.fallback_max,
            hops=settings.chain_depth,
        )
