"""An application behind a real socket, whose port is known before it is made."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.wrappers import Request, Response

View = Callable[[Request], Response]


class _Quiet(WSGIRequestHandler):
    def log(self, *_: Any) -> None:
        pass


class Wire:
    """A server on loopback in threads of this process; :attr:`app` may be replaced at any time.

    Attributes:
        seen: requests in order, their bodies read.
    """

    def __init__(self, view: View | None = None) -> None:
        self.app: Any = Request.application(view) if view else None
        self.seen: list[Request] = []
        self._server = make_server("127.0.0.1", 0, self._serve, threaded=True, request_handler=_Quiet)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def host(self) -> str:
        """``host:port``, as the allow-list of fetches takes it."""
        return f"127.0.0.1:{self._server.server_port}"

    def url(self, path: str = "") -> str:
        return f"http://{self.host}{path}"

    def _serve(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        self.seen.append(Request({**environ, "wsgi.input": io.BytesIO(body)}))
        answer: Iterable[bytes] = self.app(environ, start)
        return answer

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._thread.join(30)
        self._server.server_close()
