"""Pictures for programs and for feeds of shares: whole, signed addresses on this server. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from app.models.feeds.parsed import Enclosure
from app.models.media.addresses import MediaKeys, SignedPicture
from app.models.media.rewriting import PictureTag, list_pictures, rewrite_pictures, write_link, write_picture


class PictureSigner:
    """Replaces the addresses of sites by signed ones, so that no site sees who reads.

    Args:
        origin: this server's own address.
        keys: None: nothing is replaced, because pictures come from their sites.
    """

    def __init__(self, origin: str, keys: MediaKeys | None) -> None:
        self._origin, self._keys = origin, keys

    def sign_html(self, markup: str, page: str | None) -> str:
        """Return sanitized HTML whose pictures have signed addresses; those beyond the limit become links.

        Args:
            page: the page of the entry, whose origin is sent as Referer.
        """
        if self._keys is None:
            return markup
        signed = set(list_pictures(markup))
        return rewrite_pictures(
            markup, lambda tag: self._render(tag, page) if tag.url in signed else write_link(tag)
        )

    def sign_url(self, url: str | None, page: str | None) -> str | None:
        """Return the signed address of a picture; None without one, or if it is too long.

        Pictures of this server keep their address.
        """
        if not url or not url.lower().startswith(("https://", "http://")):
            return None
        if any(c.isspace() or ord(c) < 32 for c in url):
            return None
        if self._keys is None or url.startswith(f"{self._origin}/"):
            return url
        path = self._keys.sign(SignedPicture(url, page))
        return f"{self._origin}{path}" if path else None

    def sign_files(self, files: Sequence[Enclosure], page: str | None) -> list[Enclosure]:
        """Return an entry's files; those that programs load without a click come from this server.

        Pictures whose address can't be signed are left out.
        """
        signed = []
        for file in files:
            if not (file.is_picture or (file.type or "").lower().startswith("image/")):
                signed.append(file)
            elif url := self.sign_url(file.url, page):
                # What this server draws has another type and length.
                is_drawn = url != file.url
                signed.append(
                    dataclasses.replace(file, url=url, type="image/webp", length=None) if is_drawn else file
                )
        return signed

    def _render(self, tag: PictureTag, page: str | None) -> str:
        address = self.sign_url(tag.url, page)
        if address is None or tag.is_variant:
            return ""
        width, height = tag.size or (None, None)
        return write_picture(tag, {"src": address, "width": width, "height": height})
