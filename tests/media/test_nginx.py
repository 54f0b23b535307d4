"""The configuration of docs/production.md, with a real nginx that sends pictures from the first folder."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pycurl

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.models.media.addresses import encode_bytes
from app.models.media.blob import Purpose
from app.models.media.source import Source
from app.web.security.headers import MEDIA_CSP
from tests.browser.conftest import serve
from tests.conftest import Eventually
from tests.support.media import make_content
from tests.support.up import free_port

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin")
DOCS = Path(__file__).parents[2] / "docs" / "production.md"


def read_location(folder: Path) -> str:
    """Return the documented location, with this folder."""
    found = re.search(r"    location /media-files/ \{.*?\n    \}\n", DOCS.read_text("utf-8"), re.DOTALL)
    assert found is not None
    return found[0].replace("/srv/eventr-media/", f"{folder}/")


@contextlib.contextmanager
def run_nginx(folder: Path, upstream: str, location: str, eventually: Eventually) -> Iterator[str]:
    """Run nginx in front of a server; yield its address."""
    assert NGINX is not None
    port, own = free_port(), folder / "nginx"
    own.mkdir()
    user = "user root;" if os.geteuid() == 0 else ""
    paths = " ".join(f"{kind}_temp_path {own}/{kind};" for kind in ("client_body", "proxy", "fastcgi"))
    paths += f" uwsgi_temp_path {own}/uwsgi; scgi_temp_path {own}/scgi;"
    (own / "nginx.conf").write_text(
        f"""
        {user} daemon off; pid {own}/pid; error_log {own}/error.log; worker_processes 1;
        events {{ worker_connections 64; }}
        http {{
            access_log off; {paths} default_type text/plain;
            server {{
                listen 127.0.0.1:{port};
                {location}
                location / {{
                    proxy_pass {upstream};
                    proxy_set_header Host {upstream.removeprefix("http://")};
                    proxy_http_version 1.1;
                }}
            }}
        }}
        """
    )
    process = subprocess.Popen(
        [NGINX, "-p", str(own), "-c", str(own / "nginx.conf"), "-e", f"{own}/error.log"]
    )
    try:
        eventually((own / "pid").exists)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


def get(url: str, *headers: str) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body."""
    found: dict[str, str] = {}

    def note(line: bytes) -> None:
        name, colon, value = line.decode("latin-1").partition(":")
        if colon:
            found[name.lower()] = value.strip()

    with contextlib.closing(pycurl.Curl()) as curl:
        curl.setopt(pycurl.URL, url)
        curl.setopt(pycurl.PROXY, "")
        curl.setopt(pycurl.HTTPHEADER, list(headers))
        curl.setopt(pycurl.HEADERFUNCTION, note)
        body = curl.perform_rb()
        return curl.getinfo(pycurl.RESPONSE_CODE), found, body


def add_picture(services: Services) -> tuple[str, bytes]:
    """Store a picture of a site; return its path, and its bytes."""
    source = Source(id=bytes(16), url="https://example.org/a.png", purpose=Purpose.PICTURE)
    services.mappers.sources.add([source])
    services.gateways.sources.claim([source.id], "token", clock.now())
    picture = make_content(1)
    services.gateways.blobs.keep(
        picture,
        lambda session, blob: services.gateways.sources.finish(
            session, source.id, "token", blob, clock.now()
        ),
    )
    return f"/i/{encode_bytes(source.id)}/w640.webp", picture.files["w640"]


def test_the_documented_nginx_sends_pictures_with_all_headers(
    services: Services, tmp_path: Path, eventually: Eventually
) -> None:
    store, location = tmp_path / "store", read_location(tmp_path / "store")
    assert f'add_header Content-Security-Policy "{MEDIA_CSP}";' in location
    if NGINX is None:
        return  # this machine has none; only the text is checked
    own = dataclasses.replace(services.settings, media_stores=(f"disk:{store}",), media_accel="/media-files/")
    with contextlib.closing(bootstrap.build(own)) as built, serve(built) as site:
        path, body = add_picture(built)
        direct = get(site.url + path)
        assert direct[1]["x-accel-redirect"].startswith("/media-files/")
        assert direct[2] == b""
        with run_nginx(tmp_path, site.url, location, eventually) as proxy:
            status, headers, got = get(proxy + path)
            assert (status, got) == (200, body)
            assert "x-accel-redirect" not in headers
            for name in ("content-type", "cache-control"):
                assert headers[name] == direct[1][name]
            assert headers["content-security-policy"] == MEDIA_CSP
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cross-origin-resource-policy"] == "same-origin"
            assert headers["vary"] == "Cookie"
            assert get(proxy + path, f"If-None-Match: {headers['etag']}")[0] == 304
            status, part, got = get(proxy + path, "Range: bytes=2-4")
            assert (status, part["content-range"], got) == (206, f"bytes 2-4/{len(body)}", body[2:5])
            # Nobody gets the files around Eventr.
            inside = direct[1]["x-accel-redirect"]
            assert get(proxy + inside)[0] == 404
            missing = get(f"{proxy}/i/{encode_bytes(b'x' * 16)}/w640.webp")
            assert missing[0] == 404
