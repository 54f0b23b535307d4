"""Starter packs: OPML files shipped with Eventr, overridden by those that administrators stored."""

from __future__ import annotations

import dataclasses
import functools
import re
import zlib
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path

from app.config import Settings
from app.errors import ExistsError, InvalidError, NotFoundError
from app.feeds.html.text import extract_plain_text
from app.feeds.opml import opml
from app.feeds.opml.file_type import check_is_opml
from app.feeds.urls import hash_url, is_secret
from app.mappers.feeds.feeds import FeedMapper
from app.mappers.imports.packs import PackMapper
from app.models.feeds.feed_search import FeedWords, PackFeed, split_about, split_host, split_title
from app.models.imports.imports import Pack
from app.models.imports.opml import Outline, SubscriptionList

#: Most packs in total; a page shows them side by side.
MOST = 60
_SLUG = re.compile(r"[^a-z0-9]+")
#: Bytes at the start of a file in which its root element is sought.
_START = 4096
_ABOUT = re.compile(r"<description>([^<]{1,400})</description>")


class PackGateway:
    """Reads, stores and hides starter packs."""

    def __init__(self, packs: PackMapper, feeds: FeedMapper, settings: Settings) -> None:
        self._packs, self._feeds = packs, feeds
        self._folder = settings.packs_dir
        self._limits = opml.Limits.from_settings(settings)
        self._listed: tuple[list[Pack], Sequence[PackFeed]] = ([], ())
        self._read: dict[str, tuple[bytes, SubscriptionList]] = {}

    def list_packs(self) -> list[Pack]:
        """Return the packs, sorted by title."""
        found: dict[str, Pack | None] = {**load_shipped(self._folder), **self._packs.list_packs()}
        return sorted((p for p in found.values() if p is not None), key=lambda p: p.title.casefold())

    def get(self, slug: str) -> Pack:
        """Return a pack.

        Raises:
            NotFoundError: there is no such pack.
        """
        found = next((pack for pack in self.list_packs() if pack.slug == slug), None)
        if found is None:
            raise NotFoundError(pack=slug)
        return found

    def read(self, pack: Pack) -> SubscriptionList:
        """Return the feeds and folders of a pack; its list is read again only if it has changed.

        Feeds without a description have that of the packs shipped with Eventr: an administrator may have
        stored the pack before the shipped one had descriptions.
        """
        body, found = self._read.get(pack.slug, (b"", None))
        if found is None or body != pack.body:
            found = opml.read(pack.body, self._limits)
            if not all(feed.about for feed in found.feeds):
                found = dataclasses.replace(found, feeds=tuple(map(_add_about, found.feeds)))
            if pack.slug not in self._read and len(self._read) >= MOST:
                self._read.clear()
            self._read[pack.slug] = pack.body, found
        return found

    def list_feeds(self) -> Sequence[PackFeed]:
        """Return the different feeds of all packs; read again only if a pack has changed."""
        packs = self.list_packs()
        listed, feeds = self._listed
        if packs != listed:
            feeds = self._read_feeds(packs)
            self._listed = packs, feeds
        return feeds

    def _read_feeds(self, packs: Iterable[Pack]) -> list[PackFeed]:
        outlines: dict[str, Outline] = {}
        titles: dict[str, list[Pack]] = {}
        for pack in packs:
            for outline in self.read(pack).feeds:
                if outline.problem is None and not is_secret(outline.url):
                    outlines.setdefault(key := hash_url(outline.url), outline)
                    titles.setdefault(key, []).append(pack)
        return [_build_feed(key, outline, titles[key]) for key, outline in outlines.items()]

    def find_icons(self, urls: Iterable[str]) -> dict[str, str]:
        """Return the paths of the icons of those feeds that this server fetches, by address."""
        keys = {url: hash_url(url) for url in urls}
        icons = self._feeds.find_icons_by_keys(list(keys.values())) if keys else {}
        return {url: icons[key] for url, key in keys.items() if key in icons}

    def add(self, title: str, about: str, body: bytes) -> Pack:
        """Store a new pack.

        Raises:
            InvalidError: the file isn't OPML, or has no feeds; or there are too many packs.
            TooLargeError: the file exceeds one of the settings ``opml_…``.
            ExistsError: there is a pack with the same or a very similar name.
        """
        packs = self.list_packs()
        if len(packs) >= MOST:
            raise InvalidError("This server can have at most %(most)s starter packs.", most=MOST)
        pack = Pack(self._slug(title), title, about, self._checked(body))
        if any(p.slug == pack.slug for p in packs):
            raise ExistsError("A starter pack with this name already exists.", field="title")
        self._packs.put(pack)
        return pack

    def update(self, slug: str, title: str, about: str, body: bytes | None) -> Pack:
        """Change a pack's title, description or list; if ``body`` is None, the list stays.

        Raises:
            NotFoundError: there is no such pack.
            InvalidError: the file isn't OPML, or has no feeds.
            TooLargeError: the file exceeds one of the settings ``opml_…``.
        """
        old = self.get(slug)
        body = old.body if body is None else self._checked(body)
        pack = Pack(slug, title, about, body)
        self._packs.put(pack)
        return pack

    def remove(self, slug: str) -> None:
        """Hide a pack, even one shipped with Eventr.

        Raises:
            NotFoundError: there is no such pack.
        """
        self._packs.hide_pack(self.get(slug).slug)

    def _checked(self, body: bytes) -> bytes:
        check_is_opml(body)
        found = opml.read(body, self._limits)
        if not found.feeds:
            raise InvalidError("This file doesn't contain any feeds.", field="file")
        # Users download a pack as a file, which has to be OPML.
        is_opml = b"<opml" in body[:_START].lower()
        return body if is_opml else opml.write(found.title, found.feeds, found.folders)

    @staticmethod
    def _slug(title: str) -> str:
        slug = _SLUG.sub("-", title.lower()).strip("-")[:60]
        return slug or f"pack-{zlib.crc32(title.encode())}"


@functools.cache
def load_shipped(folder: Path | None) -> dict[str, Pack]:
    """Return the packs in a folder (None: those shipped with Eventr); read once per process."""
    place = resources.files("app").joinpath("packs") if folder is None else folder
    files = [f for f in place.iterdir() if f.name.endswith(".opml")]
    packs = (_pack(f.name.removesuffix(".opml"), f.read_bytes()) for f in files)
    return {pack.slug: pack for pack in packs}


@functools.cache
def load_descriptions() -> dict[str, str]:
    """Return the descriptions of the feeds shipped with Eventr, by address key; read once per process."""
    feeds = (feed for pack in load_shipped(None).values() for feed in opml.read(pack.body).feeds)
    return {hash_url(feed.url): feed.about for feed in feeds}


def _add_about(feed: Outline) -> Outline:
    if feed.about:
        return feed
    return dataclasses.replace(feed, about=load_descriptions().get(hash_url(feed.url), ""))


def _pack(slug: str, body: bytes) -> Pack:
    about = _ABOUT.search(body[:_START].decode("utf-8", "replace"))
    title = opml.read(body).title or slug
    pack = Pack(slug, title, "", body, shipped=True)
    return dataclasses.replace(pack, about=extract_plain_text(about[1]).strip()) if about else pack


def _build_feed(key: str, outline: Outline, packs: Sequence[Pack]) -> PackFeed:
    title = outline.title or outline.url
    about = " ".join(f"{pack.title} {pack.slug}" for pack in packs)
    words = FeedWords(
        feed_id=0,
        title=split_title(title),
        host=split_host(outline.url, outline.site_url),
        folders=split_title(about),
        about=split_about(outline.about),
    )
    titles = tuple(pack.title for pack in packs)
    return PackFeed(outline.url, key, title, outline.site_url, titles, words, outline.about)
