"""``eventr check``: test whether the reverse proxy passes on requests from apps unchanged."""

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
#: Most bytes read of a response; a longer one isn't Eventr's.
_LONGEST = 1 << 16
#: Seconds for the single request of the doctor.
BRIEF_SECONDS = 5
#: The warning about a proxy that the settings don't count; the doctor gives it as well.
IGNORED = (
    "Requests arrive through more proxies than EVENTR_TRUSTED_PROXIES says, so all users share one address "
    "and the limit on wrong passwords. Set it to the number of proxies in front of Eventr."
)
_HELLO = Probe("", "/check/compatibility", "", "", "")
_SCHEMES = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}


@click.command()
@click.argument("url", required=False)
def check(url: str | None) -> None:
    """Test whether the reverse proxy in front of this server passes on requests from apps unchanged.

    URL is the address that apps use. The default is EVENTR_BASE_URL. The command prints one line for each
    test, and what to change if the test fails. The exit code is 1 if any test fails. The page /check runs
    the same tests in a browser.
    """
    settings = Settings.from_env()
    base = urlsplit((url or web_address.get_public_url(settings)).rstrip("/"))
    if base.scheme not in _SCHEMES or not base.hostname or base.path or base.query or base.username:
        raise InvalidError("Enter an address like https://reader.example.org, without a path.")
    said = _meet(base)
    failed = 0
    if said.get("ignored"):
        click.echo(f"WARN  {'proxies':13}  {IGNORED}")
    for probe in PROBES:
        why = run_probe(probe, base, min(probe.size, settings.api_max_bytes))
        failed += why is not None
        click.echo(f"{'ok  ' if why is None else 'FAIL'}  {probe.name:13}  {probe.title}")
        if why is not None:
            click.echo("\n".join(f"      {line}" for line in _advice(probe, why)))
    sys.exit(1 if failed else 0)


def count_ignored_addresses(settings: Settings) -> int:
    """Return how many proxies on the way from the public address the settings don't count; 0 if the address
    can't be reached from here."""
    base = urlsplit(web_address.get_public_url(settings))
    try:
        said = _answer(_HELLO, base, _HELLO.path, 0, timeout=BRIEF_SECONDS)[1]
    except (OSError, http.client.HTTPException, ValueError, zlib.error):
        return 0
    found = said.get("ignored")
    return found if isinstance(found, int) else 0


def _meet(base: SplitResult) -> dict[str, object]:
    """Check that Eventr is running there, so that not every test reports the same failure.

    Returns:
        The properties of the request as it arrived.

    Raises:
        click.ClickException: Eventr isn't running there.
    """
    origin = f"{base.scheme}://{base.netloc}"
    try:
        status, said, _ = _answer(_HELLO, base, _HELLO.path, 0)
    except (OSError, http.client.HTTPException, ValueError, zlib.error) as e:
        raise click.ClickException(f"Can't get a valid response from {origin}: {_plain(e)}.") from e
    if status == http.client.BAD_REQUEST:
        raise click.ClickException(
            f"The server doesn't recognize the host name {base.hostname}. Set "
            f"EVENTR_BASE_URL={origin}, and have the proxy pass on the Host header."
        )
    if "probes" not in said:
        raise click.ClickException(
            f"{origin} isn't running Eventr, or its version is too old (HTTP status {status})."
        )
    return said


def _advice(probe: Probe, why: str) -> list[str]:
    lines = [f"{why}. {probe.wrong}", probe.fix]
    for server, text in probe.lines:
        lines += [f"{server}: {line}" for line in text.splitlines()]
    return lines


def run_probe(probe: Probe, base: SplitResult, size: int) -> str | None:
    """Send a probe's request; return what is wrong with the response, None if it is correct.

    Args:
        probe: the probe.
        base: scheme, host and port of the server.
        size: bytes of the body.
    """
    target = probe.build_path(f"{base.scheme}://{base.netloc}")
    try:
        status, said, tag = _answer(probe, base, target, size)
        if status != http.client.OK:
            return f"HTTP status {status}"
        if said.get("ok") is not True:
            return "The request was changed on the way"
        if probe.twice and _answer(probe, base, target, size)[1] == said:
            return "The same response came back twice"
        if probe.again:
            return _changed(probe, base, target, tag)
    except (OSError, http.client.HTTPException, ValueError, zlib.error) as e:
        return f"No valid response ({_plain(e)})"
    return None


def _changed(probe: Probe, base: SplitResult, target: str, tag: str) -> str | None:
    if not tag:
        return "The response has no ETag header"
    status = _answer(probe, base, target, 0, {"If-None-Match": tag})[0]
    return None if status == http.client.NOT_MODIFIED else f"HTTP status {status} instead of 304"


def _answer(
    probe: Probe,
    base: SplitResult,
    target: str,
    size: int,
    more: Mapping[str, str] | None = None,
    *,
    timeout: float = PATIENCE,
) -> tuple[int, dict[str, object], str]:
    """Send a request; return status, JSON document and ETag."""
    connection = _SCHEMES[base.scheme](base.hostname or "", base.port, timeout=timeout)
    with contextlib.closing(connection):
        # Raw requests: urllib would normalize them.
        headers = {"Accept": "application/json", "Accept-Encoding": "gzip", "User-Agent": "eventr check"}
        headers |= {**dict(probe.headers), **(more or {})}
        connection.request(probe.method, target, b"x" * size if size else None, headers)
        response = connection.getresponse()
        body = response.read(_LONGEST)
        tag = response.headers.get("ETag", "")
        if response.status != http.client.OK:
            return response.status, {}, tag
        # gzip, because apps request it, and compressing proxies then change the ETag.
        if response.headers.get("Content-Encoding") == "gzip":
            body = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(body, _LONGEST)
        said = json.loads(body)
        if not isinstance(said, dict):
            raise ValueError("not a JSON object")
        return response.status, said, tag


def _plain(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
