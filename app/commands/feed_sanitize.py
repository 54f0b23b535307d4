"""``eventr feed sanitize``: print HTML as a reader would see it."""

from __future__ import annotations

import click

from app.cli import print_json
from app.commands.files import check_web_address, errors_as_json, read_bytes
from app.feeds.html.sanitize import sanitize as sanitize_html
from app.feeds.parse import charset


@click.command()
@click.argument("file")
@click.option("--url", default="", help="Address of the entry; relative links are resolved against it.")
@click.option("--content-type", help="Content-Type header of the file; determines the charset.")
@errors_as_json
def sanitize(file: str, url: str, content_type: str | None) -> None:
    """Sanitize the HTML of an entry, and print {"html"}. '-' reads standard input."""
    base = check_web_address(url)
    markup, _ = charset.decode(read_bytes(file), content_type)
    print_json({"html": sanitize_html(markup, base)})
