"""A site with recordings, which answers parts of them as media servers do."""

from __future__ import annotations

import io
import re
import wave

from playwright.sync_api import Page, Route

#: Seconds of each recording.
LENGTH = 120


def make_recording(seconds: int = LENGTH) -> bytes:
    """Return a silent WAV file."""
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(1)
        out.setframerate(8000)
        out.writeframes(b"\x80" * 8000 * seconds)
    return file.getvalue()


class RecordingSite:
    """``https://cdn.example``, which has a recording at every address.

    Attributes:
        requested: the paths that browsers requested.
    """

    host = "cdn.example"
    url = "https://cdn.example"

    def __init__(self) -> None:
        self.requested: list[str] = []
        self._body = make_recording()

    def serve(self, page: Page) -> Page:
        """Answer a page's requests to the site."""
        page.route(f"{self.url}/**", self._answer)
        return page

    def _answer(self, route: Route) -> None:
        self.requested.append(route.request.url.removeprefix(self.url))
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", route.request.headers.get("range", ""))
        first = int(wanted[1]) if wanted else 0
        last = min(int(wanted[2] or len(self._body)), len(self._body) - 1) if wanted else len(self._body) - 1
        headers = {"Content-Type": "audio/wav", "Accept-Ranges": "bytes"}
        if wanted:
            headers["Content-Range"] = f"bytes {first}-{last}/{len(self._body)}"
        route.fulfill(status=206 if wanted else 200, headers=headers, body=self._body[first : last + 1])
