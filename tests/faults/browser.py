"""A browser without scripts against the real web tier: it notes what was acknowledged."""

from __future__ import annotations

import http.client
import re
import urllib.parse

_CSRF = re.compile(r'name="csrf_token" value="([^"]+)"')
_AWAY = (OSError, http.client.HTTPException)


class Browser:
    """Keeps cookies and sends forms with their token; each method returns None while nobody answers."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._cookies: dict[str, str] = {}
        self._token = ""
        self.retry_after: str | None = None  # of the last answer

    def get(self, path: str) -> int | None:
        """Return the status of a page, and remember its token."""
        return self._ask("GET", path, None)

    def post(self, path: str, **fields: object) -> int | None:
        """Return the status of a form's answer."""
        body = urllib.parse.urlencode({"csrf_token": self._token, **fields})
        return self._ask("POST", path, body)

    def _ask(self, method: str, path: str, body: str | None) -> int | None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=20)
        headers = {
            "Cookie": "; ".join(f"{name}={value}" for name, value in self._cookies.items()),
            "Content-Type": "application/x-www-form-urlencoded",
            "Sec-Fetch-Site": "same-origin",
        }
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "replace")
        except _AWAY:
            return None
        finally:
            connection.close()
        for line in answer.headers.get_all("Set-Cookie") or ():
            name, _, value = line.split(";", 1)[0].partition("=")
            self._cookies[name] = value
        self.retry_after = answer.headers.get("Retry-After")
        if found := _CSRF.search(text):
            self._token = found[1]
        return answer.status
