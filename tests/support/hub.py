"""A hub that others wrote, Flask-WebSub's, in a process of its own.

    with Hub() as hub:
        hub.url("sha256")            # a hub that signs so; sha1, sha384 and sha512 are others
        hub.url("refusing")          # denies every subscription
        hub.url("moved", 307)        # an address that redirects to the hub "sha256"
        hub.publish("sha256", topic) # tell it that a topic has changed
        hub.callbacks("sha256", topic)

It fetches topics itself and wants a ``Link`` header in their answers. Of Celery it uses the tasks only;
threads run them here.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any, Self

from tests.support.imports import REPO

METHODS = ("sha1", "sha256", "sha384", "sha512")


class Hub:
    """The process, and what a test asks of it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.hub"], cwd=REPO, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def url(self, name: str, redirect: int | None = None) -> str:
        path = f"redirect/{redirect}/{name}" if redirect else f"hub/{name}"
        return f"http://127.0.0.1:{self.port}/{path}"

    def publish(self, name: str, topic: str) -> None:
        form = {"hub.mode": "publish", "hub.topic": topic}
        request = urllib.request.Request(self.url(name), urllib.parse.urlencode(form).encode())
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert answer.status == 202

    def callbacks(self, name: str, topic: str) -> list[str]:
        """Return the callbacks that are subscribed to a topic."""
        query = urllib.parse.urlencode({"topic": topic})
        address = f"http://127.0.0.1:{self.port}/callbacks/{name}?{query}"
        with urllib.request.urlopen(address, timeout=30) as answer:
            return list(json.load(answer))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait(30)
        if self._process.stdout:
            self._process.stdout.close()


class Tasks:
    """What the hub needs of Celery: tasks that run elsewhere, and are tried again later."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(8)

    def task(self, *, bind: bool = False, **_: Any) -> Callable[[Callable[..., None]], Any]:
        def made(call: Callable[..., None]) -> Any:
            def run(retries: int, args: tuple[Any, ...]) -> None:
                def retry(*, countdown: float) -> None:
                    threading.Timer(countdown, run, (retries + 1, args)).start()

                own = SimpleNamespace(request=SimpleNamespace(retries=retries), retry=retry)
                with contextlib.suppress(Exception):  # the hub logs what fails
                    call(own, *args) if bind else call(*args)

            return SimpleNamespace(delay=lambda *args: self._threads.submit(run, 0, args))

        return made


def _serve(folder: Path) -> None:
    from flask import Flask, jsonify, redirect, request
    from flask_websub.hub import Hub as OtherHub
    from flask_websub.hub import SQLite3HubStorage
    from werkzeug.serving import make_server

    app = Flask(__name__)
    app.config["PUBLISH_SUPPORTED"] = True
    tasks, hubs = Tasks(), {}
    for name in (*METHODS, "refusing"):
        config = {
            "SIGNATURE_ALGORITHM": "sha256" if name == "refusing" else name,
            "BACKOFF_BASE": 0.5,
            "REQUEST_TIMEOUT": 30,  # who is only slow is not to get a push twice
        }
        hub = OtherHub(SQLite3HubStorage(str(folder / f"{name}.sqlite3")), tasks, **config)
        app.register_blueprint(hub.build_blueprint(url_prefix=f"/hub/{name}"))
        hubs[name] = hub
    hubs["refusing"].register_validator(lambda *_: "this hub wants nobody")

    @app.post("/redirect/<int:status>/<name>")
    def moved(status: int, name: str) -> Any:
        return redirect(f"/hub/{name}", status)

    @app.get("/callbacks/<name>")
    def callbacks(name: str) -> Any:
        return jsonify([row[0] for row in hubs[name].storage.get_callbacks(request.args["topic"])])

    server = make_server("127.0.0.1", 0, app, threaded=True)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="eventr-hub-") as where:
        _serve(Path(where))
