"""``python -m bench [names…]``: run benchmarks, print the table, write ``bench/results.json``."""

from __future__ import annotations

import sys
import time

import click

from bench import docs, harness, media


@click.command()
@click.argument("names", nargs=-1)
@click.option("--runs", default=5, show_default=True, help="Measurements per figure.")
@click.option("--quick", is_flag=True, help="As little as shows that it runs; writes no results.")
@click.option("--large", is_flag=True, help="Also sizes that take hours (group system).")
@click.option("--peer", default="", help="Command that prints a peer's figures as JSON (group system).")
@click.option("--list", "only_list", is_flag=True, help="Print the groups and end.")
@click.option("--write-docs", is_flag=True, help="Also write the table of docs/performance.md.")
@click.option("--strict", is_flag=True, help="Exit code 1 when a target is missed.")
def main(names: tuple[str, ...], runs: int, peer: str, **options: bool) -> None:
    """Run the benchmarks whose groups are named (all without NAMES)."""
    quick = options["quick"]
    groups = harness.registered()
    chosen = media.expand_names(names)
    wanted = [group for group in groups if not names or group in chosen]
    unknown = sorted(set(chosen) - set(groups))
    if unknown:
        raise click.BadParameter(f"{unknown[0]} is none of {', '.join(groups)}")
    if options["only_list"]:
        click.echo("\n".join(wanted))
        return
    bench = harness.Bench(repeats=runs, quick=quick, large=options["large"], peer=peer)
    click.echo(harness.machine())
    for group in wanted:
        started = time.monotonic()
        click.echo(f"-- {group}")
        groups[group](bench)
        click.echo(f"  {time.monotonic() - started:.0f} s")
    if not quick:
        harness.save(bench.figures.values())
    if options["write_docs"] and not quick:
        docs.write(bench.figures, harness.machine())
    missed = [figure for figure in bench.figures.values() if not figure.met]
    click.echo(f"-- {len(bench.figures)} figures, {len(missed)} targets missed")
    for figure in missed:
        click.echo(harness.row(figure))
    sys.exit(1 if missed and options["strict"] else 0)


if __name__ == "__main__":
    main()
