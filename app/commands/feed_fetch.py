"""``eventr feed fetch URL``: fetch one address with the real fetcher and all its rules."""

from __future__ import annotations

import sys
from typing import Any

import click

from app import clock, logs
from app.cli import print_json
from app.commands.files import errors_as_json
from app.config import Settings
from app.feeds.fetch.fetcher import Fetcher
from app.models.feeds.fetched import Fetched, FetchRequest, Target, Validators


def _sendable(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    try:
        (value or "").encode("latin-1")
    except UnicodeEncodeError as e:
        raise click.BadParameter("contains characters that aren't allowed in a header") from e
    return value


@click.command()
@click.argument("url")
@click.option(
    "--page", is_flag=True, help="Fetch as a page: use the limits for pages and follow one meta refresh."
)
@click.option("--etag", callback=_sendable, help="Send If-None-Match.")
@click.option("--last-modified", callback=_sendable, help="Send If-Modified-Since.")
@click.option("--hash", "body_hash", help="xxh3-128 hash of the previous body, in hex.")
@click.option("--body", "with_body", is_flag=True, help="Also print the body, as text.")
@errors_as_json
def fetch(
    *,
    url: str,
    page: bool,
    etag: str | None,
    last_modified: str | None,
    body_hash: str | None,
    with_body: bool,
) -> None:
    """Fetch an address under the same rules as a feed, and print the result as JSON."""
    settings = Settings.from_env()
    logs.configure(settings.log_level, settings.log_format)
    try:
        known = Validators(etag, last_modified, bytes.fromhex(body_hash) if body_hash else None)
    except ValueError as e:
        raise click.BadParameter("isn't hexadecimal", param_hint="--hash") from e
    with Fetcher(settings) as fetcher:
        got = fetcher.fetch(FetchRequest(url, Target.PAGE if page else Target.FEED, known))
    print_json({**_document(got), **({"body": _text(got.body)} if with_body else {})})
    if got.error is not None:
        click.echo(f"eventr: {got.error.message} ({got.error.detail})", err=True)
        sys.exit(1)


def _document(got: Fetched) -> dict[str, Any]:
    error = got.error
    digest = got.validators.body_hash
    return {
        "status": got.status,
        "url": got.url,
        "permanent_url": got.permanent_url,
        "content_type": got.content_type,
        "etag": got.validators.etag,
        "last_modified": got.validators.last_modified,
        "body_hash": digest.hex() if digest else None,
        "unchanged": got.unchanged,
        "bytes": None if got.body is None else len(got.body),
        "wire_bytes": got.wire_bytes,
        "ms": got.ms,
        "at": clock.now().isoformat().replace("+00:00", "Z"),
        "retry_after": got.retry_after,
        "headers": dict(got.headers),
        "error": error.word if error else None,
        "message": error.message if error else None,
        "detail": error.detail if error else None,
    }


def _text(body: bytes | None) -> str | None:
    return None if body is None else body.decode("utf-8", "replace")
