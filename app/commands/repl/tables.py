"""REPL output: results of a manager as aligned tables, without terminal control characters."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Render = Callable[[Any], str]
_ARGS_MAX = 60


def format_result(command: str, result: Any) -> str:
    """Return the result of a command as lines."""
    return _RENDER.get(command, _pairs)(result)


def format_event(fields: Mapping[str, Any]) -> str:
    """Return one event as a line: time, kind, then its other fields."""
    at = str(fields.get("at", ""))[11:23]
    rest = " ".join(f"{name}={_plain(value)}" for name, value in fields.items() if name not in _EVENT_FIRST)
    kind, task = _plain(fields.get("kind", "")), _plain(fields.get("task", ""))
    return f"{at}  {kind:<9} {task:<20} {_plain(fields.get('id', '')):<32} {rest}".rstrip()


_EVENT_FIRST = ("at", "kind", "task", "id", "since")


def format_managers(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the managers on a host as a table."""
    if not rows:
        return "No manager is running here."
    return _table(
        ["process", "since", "manager"], [[r["pid"], _time(r["since"]), r["manager"]] for r in rows]
    )


def _help(rows: Any) -> str:
    return _table(None, [[row["usage"], row["text"]] for row in rows])


def _status(status: Any) -> str:
    head = (
        f"Manager {_plain(status['manager'])}, process {status['pid']}, running since "
        f"{_time(status['since'])}."
    )
    groups = _table(
        ["group", "mode", "workers", "wanted", "min–max", "queues"],
        [
            [
                g["name"],
                g["mode"],
                g["serving"],
                g["wanted"],
                f"{g['min_workers']}–{g['max_workers']}",
                " ".join(g["queues"]),
            ]
            for g in status["groups"]
        ],
        right={2, 3, 4},
    )
    workers = _table(
        ["worker", "process", "age", "jobs", "memory", "state", "running"],
        [
            [
                w["name"],
                w["pid"],
                _span(w["age_s"]),
                w["jobs_done"],
                f"{w['rss_mb']:.0f} MB",
                w["state"],
                _current(w["current"]),
            ]
            for w in status["workers"]
        ],
        right={1, 2, 3, 4},
    )
    return "\n\n".join([head, groups, *_unserved(status), workers or "No workers are running."])


def _reloaded(done: Any) -> str:
    return "\n".join([f"Groups: {_value(done['groups'])}.", *_unserved(done)])


def _unserved(found: Any) -> list[str]:
    queues = found["unserved"]
    return (
        [
            (
                f"No group of this manager serves {_value(queues)}. Jobs in these queues wait "
                "until another manager serves them."
            )
        ]
        if queues
        else []
    )


def _current(jobs: Sequence[Mapping[str, Any]]) -> str:
    if not jobs:
        return "–"
    longest = max(jobs, key=lambda job: float(job["for_s"]))
    more = f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""
    return f"{longest['task']} for {_span(longest['for_s'])}{more}"


def _queues(rows: Any) -> str:
    return _table(
        ["queue", "waiting", "oldest", "running", "state"],
        [
            [
                r["name"],
                r["length"],
                _span(r["oldest_s"]) if r["length"] else "–",
                r["running"],
                " ".join(word for word in ("paused", "draining") if r[word]) or "open",
            ]
            for r in rows
        ],
        right={1, 2, 3},
    )


def _settings(groups: Any) -> str:
    parts = []
    for name, values in groups.items():
        rows = [[f"{name}.{key}", _value(value)] for key, value in values.items()]
        parts.append(_table(None, rows))
    return "\n\n".join(part for part in parts if part)


def _dead(rows: Any) -> str:
    if not rows:
        return "No failed jobs."
    return _table(
        ["id", "ended", "task", "queue", "error", "failures", "crashes", "arguments"],
        [
            [
                r["id"],
                _time(r["ended"]),
                r["task"],
                r["queue"],
                r["error"],
                r["failures"],
                r["crashes"],
                _cut(_value(r["args"])),
            ]
            for r in rows
        ],
        right={5, 6},
    )


def _stats(result: Any) -> str:
    if not result["hours"]:
        return "No activity in this period."
    rows = [[_time(h["hour"])[:16], *_figures(h)] for h in result["hours"]]
    if len(rows) > 1:
        rows.append(["total", *_figures(result["total"])])
    head = ["hour (UTC)", "jobs", "failed", "retried", "crashed", "pulls", "304", "new", "with errors"]
    parts = [_table([*head, "wait p50", "p95", "system p50", "p95", "memory"], rows, right=set(range(1, 14)))]
    for title, key in (("task", "jobs"), ("error", "errors"), ("feed error", "feed_error_words")):
        counts = sorted(result["total"][key].items(), key=lambda pair: -pair[1])
        if counts:
            parts.append(_table([title, "count"], [list(pair) for pair in counts], right={1}))
    return "\n\n".join(parts)


def _figures(hour: Mapping[str, Any]) -> list[Any]:
    waits = ("wait_p50_s", "wait_p95_s", "system_wait_p50_s", "system_wait_p95_s")
    return [
        sum(hour["jobs"].values()),
        *(
            hour[key]
            for key in ("failed", "retried", "crashed", "feeds", "not_modified", "new", "feed_errors")
        ),
        *("–" if hour[key] is None else _seconds(hour[key]) for key in waits),
        f"{hour['memory_peak_mb']:.0f} MB",
    ]


def _pairs(result: Any) -> str:
    if not isinstance(result, Mapping):
        return _value(result)
    return ", ".join(f"{name} {_value(value)}" for name, value in result.items())


def _setting(changed: Any) -> str:
    return f"{_plain(changed['name'])}.{_plain(changed['key'])} is now {_value(changed['value'])}."


def _queue(changed: Any) -> str:
    states = [word for word in ("paused", "draining") if changed[word]]
    return f"{_plain(changed['queue'])} is now {' and '.join(states) or 'open'}."


def _killed(worker: Any) -> str:
    when = (
        "will stop when its jobs are done"
        if worker["gently"]
        else "is being killed; its jobs go back to the queue"
    )
    return f"{_plain(worker['worker'])} (process {worker['pid']}) {when}."


def _number_of_tasks(done: Any) -> str:
    ((what, number),) = done.items()
    return f"{number} job{'' if number == 1 else 's'} {_DONE[what]}."


_DONE = {"retried": "queued for retry", "dropped": "deleted"}

_RENDER: Mapping[str, Render] = {
    **dict.fromkeys(("set", "reset"), _setting),
    **dict.fromkeys(("pause", "resume", "drain"), _queue),
    **dict.fromkeys(("retry", "drop"), _number_of_tasks),
    "kill": _killed,
    "help": _help,
    "reload": _reloaded,
    "status": _status,
    "queues": _queues,
    "settings": _settings,
    "dead": _dead,
    "stats": _stats,
}


def _table(head: Sequence[str] | None, rows: Sequence[Sequence[Any]], right: set[int] | None = None) -> str:
    lines = [[_plain(cell) for cell in row] for row in ([head] if head else []) + list(rows)]
    if not rows:
        return ""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if i in (right or ()) else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _plain(value: object) -> str:
    """Return a text without control and format characters: names from Redis may be anyone's input."""
    return "".join("�" if unicodedata.category(c)[0] == "C" else c for c in str(value))


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{name}={_value(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        return ",".join(map(_value, value))
    if value is None:
        return "–"
    return ("yes" if value else "no") if isinstance(value, bool) else _plain(value)


def _cut(line: str) -> str:
    return line if len(line) <= _ARGS_MAX else line[: _ARGS_MAX - 1] + "…"


def _time(iso: object) -> str:
    return str(iso or "")[:19].replace("T", " ")


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms" if seconds < 0.9995 else f"{seconds:.1f} s"


def _span(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02} h"
