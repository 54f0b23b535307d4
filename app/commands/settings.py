"""``eventr settings``: the table of all settings with the values that hold here."""

from __future__ import annotations

from typing import Any

import click

from app.cli import print_json
from app.config import Settings
from app.models.operations.settings_view import list_settings

_INTRODUCTION = """\
# Settings

Read from the environment once, at the start of a process; a value that does not fit ends the start with a
sentence. Durations are seconds, sizes bytes, unless the name says otherwise; lists are comma-separated. For a
secret setting, `EVENTR_<NAME>_FILE` may name a file that holds the value. `eventr settings` shows the
values that hold on a machine, secrets hidden.

This file is made by `make docs` (`eventr settings --markdown`) from `app/config.py`.
"""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.option("--markdown", is_flag=True, help="The text of docs/settings.md, without values.")
def settings(as_json: bool, markdown: bool) -> None:
    """Show all settings: environment variable, value (secrets hidden), default, meaning."""
    if markdown:
        click.echo(render_markdown())
        return
    table = list_settings(Settings.from_env())
    if as_json:
        print_json({row["name"]: row for row in table})
    else:
        click.echo(_as_text(table))


def render_markdown() -> str:
    """Return the text of docs/settings.md."""
    lines = [_INTRODUCTION, "| variable | default | meaning |", "|---|---|---|"]
    for row in list_settings(Settings()):
        default = f"`{row['default']}`" if row["default"] else "empty"
        meaning = row["help"] + (" (secret)" if row["secret"] else "")
        lines.append(f"| `{row['env']}` | {default} | {meaning} |")
    return "\n".join(lines)


def _as_text(table: list[dict[str, Any]]) -> str:
    lines = []
    for row in table:
        changed = "" if row["value"] == row["default"] else f"   (default {row['default'] or 'empty'})"
        lines += [f"{row['env']} = {row['value']}{changed}", f"    {row['help']}"]
    return "\n".join(lines)
