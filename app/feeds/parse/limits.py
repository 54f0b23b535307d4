"""Limits of feed parsing, against hostile and careless feeds (security.md X02, X04, X09)."""

from __future__ import annotations

import dataclasses

from app.config import Settings


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one parse; sizes in bytes or characters.

    Attributes:
        body: longest document; also the limit for a decompressed gzip file.
        items: most entries parsed; the rest is skipped and the feed marked as truncated. If most entries
            have a later date than the one before, the last entries are parsed.
        html: longest content or summary; a longer one is cut and the feed marked as truncated.
        title: longest title, author or category.
        depth, attributes: of XML elements; a document beyond them is refused.
        fallback: longest document for the slow parser.
        hops: most shares in the chain of an entry; a longer chain is dropped.
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
        """Read the limits from the settings."""
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
