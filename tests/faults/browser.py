"""A browser without scripts against the real web tier: it notes what was acknowledged."""

from __future__ import annotations

import http.client
import json
import re
import urllib.parse
from typing import Any

_CSRF = re.compile(r'name="csrf_token" value="([^"]+)"')
_AWAY = (OSError, http.client.HTTPException)


class Browser:
    """Keeps cookies and sends forms with their token; each method returns None while nobody answers.

    Args:
        session: id of a session that is open already.
    """

    def __init__(self, port: int, session: str = "") -> None:
        self.port = port
        self._cookies = {"eventr": session} if session else {}
        self._token = ""
        self.status: int | None = None  # of the last answer, like the next three
        self.text = ""
        self.retry_after: str | None = None
        self.location: str | None = None

    @property
    def cookie(self) -> str:
        """All cookies as the value of a header."""
        return "; ".join(f"{name}={value}" for name, value in self._cookies.items())

    def get(self, path: str) -> int | None:
        """Return the status of a page, and remember its token."""
        return self._ask("GET", path, None)

    def post(self, path: str, **fields: object) -> int | None:
        """Return the status of a form's answer."""
        return self._ask("POST", path, self._form(fields))

    def json(self, path: str, form: dict[str, object] | None = None) -> Any:
        """Return what a script of ours gets, to a POST if there is a form; None where it gets nothing."""
        method, body = ("GET", None) if form is None else ("POST", self._form(form))
        return json.loads(self.text) if self._ask(method, path, body, "application/json") == 200 else None

    def _form(self, fields: dict[str, object]) -> str:
        return urllib.parse.urlencode({"csrf_token": self._token, **fields})

    def _ask(self, method: str, path: str, body: str | None, accept: str = "text/html") -> int | None:
        self.status = self._send(method, path, body, accept)
        return self.status

    def _send(self, method: str, path: str, body: str | None, accept: str) -> int | None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        headers = {
            "Accept": accept,
            "Cookie": self.cookie,
            "Content-Type": "application/x-www-form-urlencoded",
            "Sec-Fetch-Site": "same-origin",
        }
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            self.text = answer.read().decode("utf-8", "replace")
        except _AWAY:
            return None
        finally:
            connection.close()
        for line in answer.headers.get_all("Set-Cookie") or ():
            name, _, value = line.split(";", 1)[0].partition("=")
            self._cookies[name] = value
        self.retry_after = answer.headers.get("Retry-After")
        self.location = answer.headers.get("Location")
        if found := _CSRF.search(self.text):
            self._token = found[1]
        return answer.status
