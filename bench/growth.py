"""Memory growth of processes over counted work: how many MB do 10,000 requests add?

A count of requests repeats on any machine, however busy it is; a slope over time doesn't. Memory is the pages
that a process has written and shares with no other: programs that come and go don't change it. One reader
reads and marks in turn, and all feeds publish again and again.

``python -m bench.growth`` prints the memory of each kind of process after each part of the run.
"""

from __future__ import annotations

import click

from bench.farm import Farm
from bench.harness import machine
from bench.soak import compute_slope, make_reader
from bench.whole import Whole

#: Requests of one step of a reader: the list, and then two more, or a mark in each fifth step.
_STEP_REQUESTS = 14 / 5


@click.command()
@click.option("--feeds", default=200, show_default=True, help="Feeds that publish.")
@click.option("--requests", default=10_000, show_default=True, help="Requests after the warm-up.")
@click.option("--warm-up", default=5000, show_default=True, help="Requests before.")
@click.option("--publish-every", default=500, show_default=True, help="Requests between two publications.")
@click.option("--parts", default=8, show_default=True, help="Samples after the warm-up.")
def main(feeds: int, requests: int, warm_up: int, publish_every: int, parts: int) -> None:
    """Read and mark; print the growth per 10,000 requests."""
    click.echo(
        f"{machine()}: {feeds} feeds, {warm_up} + {requests} requests, published every {publish_every}"
    )
    with Farm(feeds) as farm, Whole(farm, EVENTR_WEB_WORKERS="1") as whole:
        whole.sign_up()
        whole.import_all()
        whole.settle()
        read, done, steps, published = make_reader(whole, 1), 0.0, 0, 0
        points: list[tuple[float, dict[str, float]]] = []
        for goal in (warm_up, *(warm_up + requests * (part + 1) / parts for part in range(parts))):
            while done < goal:
                read(steps)
                steps, done = steps + 1, done + _STEP_REQUESTS
                if done >= (published + 1) * publish_every:
                    farm.publish()
                    whole.refresh_all()
                    published += 1
            memory = whole.family.own_memory_by_name()
            points.append((done, memory))
            found = ", ".join(f"{kind} {value:.1f}" for kind, value in sorted(memory.items()))
            click.echo(f"{done:6.0f} requests: {found}")
        for kind in sorted(points[-1][1]):
            slope = compute_slope([(at, memory.get(kind, 0.0)) for at, memory in points]) / 3600 * 10_000
            click.echo(f"{kind}: {slope:+.1f} MB per 10,000 requests")


if __name__ == "__main__":
    main()
