"""``eventr check``: does the proxy in front let through what programs send?"""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import sys
import zlib
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

import click

from app.commands import web_address
from app.config import Settings
from app.errors import InvalidError
from app.models.operations.proxy_probes import PROBES, Probe

PATIENCE = 20
#: No answer of a probe is longer; what is longer comes from somebody else.
_LONGEST = 1 << 16
_SCHEMES = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}


@click.command()
@click.argument("url", required=False)
def check(url: str | None) -> None:
    """Try out what the way to this server lets through: slashes, headers, large requests, HTTPS.

    URL is the address that apps use (EVENTR_BASE_URL unless it is given). Prints one line per test, and
    what to change where one failed; exit 1 then. The page /check does the same from a browser.
    """
    settings = Settings.from_env()
    base = urlsplit((url or web_address.get_public_url(settings)).rstrip("/"))
    if base.scheme not in _SCHEMES or not base.hostname or base.path or base.query or base.username:
        raise InvalidError("Give an address like https://reader.example.org, without a path.")
    _meet(base)
    failed = 0
    for probe in PROBES:
        why = run_probe(probe, base, min(probe.size, settings.api_max_bytes))
        failed += why is not None
        click.echo(f"{'ok  ' if why is None else 'FAIL'}  {probe.name:13}  {probe.title}")
        if why is not None:
            click.echo("\n".join(f"      {line}" for line in _advice(probe, why)))
    sys.exit(1 if failed else 0)


def _meet(base: SplitResult) -> None:
    """Make sure that an Eventr is there, so that not every test says the same.

    Raises:
        click.ClickException: none is.
    """
    hello = Probe("", "/check/compatibility", "", "", "")
    origin = f"{base.scheme}://{base.netloc}"
    try:
        status, said, _ = _answer(hello, base, hello.path, 0)
    except (OSError, http.client.HTTPException, ValueError, zlib.error) as e:
        raise click.ClickException(f"{origin} gives no answer that can be read: {_plain(e)}.") from e
    if status == http.client.BAD_REQUEST:
        raise click.ClickException(
            f"The server does not know the name {base.hostname}: set EVENTR_BASE_URL={origin}, "
            "and have the proxy pass on the header Host."
        )
    if "probes" not in said:
        raise click.ClickException(f"There is no Eventr at {origin}, or an older one: status {status}.")


def _advice(probe: Probe, why: str) -> list[str]:
    lines = [f"{why}. {probe.wrong}", probe.fix]
    for server, text in probe.lines:
        lines += [f"{server}: {line}" for line in text.splitlines()]
    return lines


def run_probe(probe: Probe, base: SplitResult, size: int) -> str | None:
    """Make a probe's request; return what is wrong with the answer, None when all is well.

    Args:
        base: scheme, host and port of the server. size: bytes of the body.
    """
    target = probe.build_path(f"{base.scheme}://{base.netloc}")
    try:
        status, said, tag = _answer(probe, base, target, size)
        if status != http.client.OK:
            return f"Status {status}"
        if said.get("ok") is not True:
            return "It did not arrive as it was sent"
        if probe.twice and _answer(probe, base, target, size)[1] == said:
            return "The same answer came twice"
        if probe.again:
            return _changed(probe, base, target, tag)
    except (OSError, http.client.HTTPException, ValueError, zlib.error) as e:
        return f"No answer that can be read ({_plain(e)})"
    return None


def _changed(probe: Probe, base: SplitResult, target: str, tag: str) -> str | None:
    if not tag:
        return "The header ETag did not come"
    status = _answer(probe, base, target, 0, {"If-None-Match": tag})[0]
    return None if status == http.client.NOT_MODIFIED else f"Status {status} instead of 304"


def _answer(
    probe: Probe, base: SplitResult, target: str, size: int, more: Mapping[str, str] | None = None
) -> tuple[int, dict[str, object], str]:
    """Return status, JSON document and ETag."""
    connection = _SCHEMES[base.scheme](base.hostname or "", base.port, timeout=PATIENCE)
    with contextlib.closing(connection):
        # As it is: nothing of urllib, which would make it nicer.
        headers = {"Accept": "application/json", "Accept-Encoding": "gzip", "User-Agent": "eventr check"}
        headers |= {**dict(probe.headers), **(more or {})}
        connection.request(probe.method, target, b"x" * size if size else None, headers)
        response = connection.getresponse()
        body = response.read(_LONGEST)
        tag = response.headers.get("ETag", "")
        if response.status != http.client.OK:
            return response.status, {}, tag
        # As apps ask: proxies that compress give other tags then.
        if response.headers.get("Content-Encoding") == "gzip":
            body = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(body, _LONGEST)
        said = json.loads(body)
        if not isinstance(said, dict):
            raise ValueError("no JSON object")
        return response.status, said, tag


def _plain(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
