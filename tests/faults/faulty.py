"""A parser that some bodies bring down: each ``poison:<way>`` in a body is a fault of its own.

Python runs :data:`FAULTY` at the start of every process of the system. It is a text and no module, so that
nothing of ours could load it anywhere else.
"""

from __future__ import annotations

from pathlib import Path

#: Those that bring their worker down, and what their history says of that.
CRASHES = {"segfault": "signal 11", "abort": "signal 6", "loop": "stall", "hog": "memory"}
#: Those that the worker outlives: an error nobody foresaw, no memory for it, more than the store takes.
FAULTS = ("raise", "memory", "huge")

FAULTY = """
import ctypes, dataclasses, mmap, os, signal
from pathlib import Path
from app.feeds import parse as package

_prepare, _parse = package.prepare_source, package.parse_source

def hog():
    # Shared pages count as resident and escape RLIMIT_DATA: only the manager's look at RSS stops this.
    held = mmap.mmap(-1, 512 << 20, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)
    loop()

def loop():
    # As an expression that never ends it holds the interpreter; unlike one, it leaves the cores to others.
    c = ctypes.PyDLL(None)
    while True:
        c.pause()

def freeze():
    # Once: whoever comes after the frozen one goes on.
    try:
        with open(Path(__file__).parent / "frozen", "x") as note:
            note.write(str(os.getpid()))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGSTOP)

WAYS = {
    b"segfault": lambda: ctypes.string_at(0),
    b"abort": os.abort,
    b"loop": loop,
    b"hog": hog,
    b"freeze": freeze,
    b"memory": lambda: bytearray(1 << 60),
    b"raise": lambda: [].pop(),
}

def prepare_source(body, *args, **options):
    for way, work in WAYS.items():
        if b"poison:" + way in body:
            work()
    return _prepare(body, *args, **options)

def parse_source(source, *args, **options):
    parsed = _parse(source, *args, **options)
    if b"poison:huge" not in source.text:
        return parsed
    entries = tuple(dataclasses.replace(entry, title="x" * (20 << 20)) for entry in parsed.entries)
    return dataclasses.replace(parsed, entries=entries)

package.prepare_source, package.parse_source = prepare_source, parse_source
"""


def frozen(home: Path) -> int | None:
    """Return the process that ``poison:freeze`` has stopped, None before that."""
    note = home / "faulty" / "frozen"
    text = note.read_text() if note.exists() else ""
    return int(text) if text else None
