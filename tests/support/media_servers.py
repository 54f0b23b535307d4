"""Servers for media stores: WebDAV by wsgidav, S3 by moto, each a process of its own that may be killed."""

from __future__ import annotations

import contextlib
import http.client
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Self

from app.models.media.store_address import StoreAddress, parse_store
from tests.support.up import free_port

USER, PASSWORD = "eventr", "canary pass/word"
_QUOTED = "canary%20pass%2Fword"
_DAV = """
import sys
from cheroot.wsgi import Server
from wsgidav.wsgidav_app import WsgiDAVApp
folder, port, user, password = sys.argv[1:]
app = WsgiDAVApp({
    "provider_mapping": {"/": folder},
    "http_authenticator": {"accept_basic": True, "accept_digest": False, "default_to_digest": False},
    "simple_dc": {"user_mapping": {"*": {user: {"password": password}}}},
    "verbose": 0,
    "logging": {"enable": False},
    "property_manager": None,
    "lock_storage": None,
})
Server(("127.0.0.1", int(port)), app, numthreads=4).start()
"""
_S3 = """
import sys
from moto.server import main
main(["-H", "127.0.0.1", "-p", sys.argv[1]])
"""


class _Process:
    def __init__(self, script: str, *arguments: str, port: int) -> None:
        self.port = port
        self._command = [sys.executable, "-c", script, *arguments]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start the server, and wait until it accepts connections."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        pause, end = threading.Event(), time.monotonic() + 60
        while time.monotonic() < end and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 5):
                return self
            pause.wait(0.02)
        raise AssertionError("the server doesn't start")

    def kill(self) -> None:
        """Kill the server as the kernel does."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(60)
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()


class DavServer(_Process):
    """A WebDAV server that requires a password; its folder survives it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        port = free_port()
        super().__init__(_DAV, str(folder), str(port), USER, PASSWORD, port=port)

    def setting(self, path: str = "media", password: str = _QUOTED) -> str:
        """Return the address as EVENTR_MEDIA_STORES has it."""
        return f"dav:http://{USER}:{password}@127.0.0.1:{self.port}/{path}"

    def address(self, path: str = "media", password: str = _QUOTED) -> StoreAddress:
        return parse_store(self.setting(path, password))


class S3Server(_Process):
    """An S3 server; its buckets are gone with it."""

    def __init__(self) -> None:
        port = free_port()
        super().__init__(_S3, str(port), port=port)

    def start(self) -> Self:
        super().start()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("PUT", "/bucket")
        assert connection.getresponse().status == 200
        connection.close()
        return self

    def setting(self, path: str = "bucket/media") -> str:
        return f"s3:http://key:canary%2Fsecret@127.0.0.1:{self.port}/{path}"

    def address(self, path: str = "bucket/media") -> StoreAddress:
        return parse_store(self.setting(path))
