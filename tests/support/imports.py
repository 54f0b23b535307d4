"""Who imports whom, read from the source (no code is run), and the rules for it.

The rules say for each layer what of ours it may import, and for each restricted library who may.
A name is looked up by its longest matching prefix: ``app.feeds.fetch.body`` falls under ``app.feeds``.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
OURS = ("app", "workers", "queue_manager", "controller")

_BASE = ("app.models", "app.errors", "app.clock", "app.config", "app.logs", "app.runtime")
#: The command line may use any part.
_EVERYTHING = ("*",)

#: Layer → what of ours it may import, beside itself.
LAYERS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(_BASE, _BASE),
    "app.ports": _BASE,
    "app.feeds": (*_BASE, "app.ports"),
    "app.mappers": (*_BASE, "app.ports"),
    "app.gateways": (*_BASE, "app.mappers", "app.feeds", "app.ports"),
    "app.services": (*_BASE, "app.gateways", "app.ports"),
    # Redis and other outside systems, behind the protocols of app.ports.
    "app.adapters": (*_BASE, "app.ports", "controller.client"),
    "app.embedded": _BASE,
    # The admin port and the metrics of each process.
    "app.monitoring": _BASE,
    # The checks of doctor and of the admin screens look at the machine itself.
    "app.monitoring.health": (*_BASE, "app.embedded", "app.feeds", "app.mappers"),
    # The one place that builds everything; the lower half of it first.
    "app.bootstrap.stores": (*_BASE, "app.ports", "app.feeds", "app.mappers", "app.gateways"),
    "app.bootstrap": (
        *_BASE,
        "app.ports",
        "app.feeds",
        "app.mappers",
        "app.gateways",
        "app.services",
        "app.adapters",
        "app.monitoring.health",
        "app.embedded",
        "controller.client",
    ),
    # Web knows the container of the services, and cannot build it.
    "app.web": (*_BASE, "app.services", "app.ports", "app.bootstrap.services.Services"),
    "app": ("app.config", "app.bootstrap", "app.application"),
    "app.application": ("app.config", "app.bootstrap", "app.web"),
    "app.cli": _EVERYTHING,
    "app.__main__": _EVERYTHING,
    "app.commands": _EVERYTHING,
    "workers": (
        *_BASE,
        "app.bootstrap",
        "app.services",
        "app.ports",
        "app.adapters.redis",
        "app.monitoring",
        "controller.client",
    ),
    "queue_manager": (*_BASE, "app.monitoring"),
    "controller": (*_BASE, "app.monitoring"),
}

#: Module of ours → who may import it, where the layer alone would allow more.
RESTRICTED: Mapping[str, tuple[str, ...]] = {
    "app.runtime.translations": ("app.web", "app.services.notifications.texts", "app.commands"),
    "app.runtime.redis_errors": (
        "app.adapters",
        "app.monitoring",
        "app.commands",
        "workers",
        "queue_manager",
        "controller",
    ),
    "app.runtime.redis_connections": (
        "app.adapters.redis",
        "app.monitoring.health",
        "app.bootstrap",
        "app.commands",
        "workers",
        "queue_manager",
        "controller",
    ),
    "app.monitoring.health": ("app.bootstrap", "app.commands"),
    "app.adapters.search": ("app.bootstrap", "app.commands.search"),
    "app.adapters.redis.events": ("app.bootstrap", "app.commands"),
    "app.adapters.redis.job_engine": ("app.bootstrap", "app.commands"),
    "app.adapters.redis.rate_limit": ("app.bootstrap", "app.commands"),
    "app.adapters.redis.host_budget": ("app.bootstrap", "app.commands"),
    "app.adapters.redis.stats": ("app.bootstrap", "app.commands"),
    "controller.client": (
        "app.adapters.redis.jobs",
        "app.bootstrap",
        "app.commands",
        "controller",
        "workers",
    ),
}

#: Inside gateways and services a domain may import only the domains to its right.
DOMAINS = (
    "operations",
    "privacy",
    "sync",
    "imports",
    "notifications",
    "discussion",
    "sharing",
    "reading",
    "subscriptions",
    "feeds",
    "media",
    "accounts",
)
#: What breaks the order today: module and the domain it imports. This list may only shrink.
BACKWARD: frozenset[tuple[str, str]] = frozenset(
    {
        ("app.gateways.reading.entries", "sharing"),
        ("app.gateways.reading.grouping", "sharing"),
        ("app.gateways.subscriptions.subscriptions", "sharing"),
        ("app.services.accounts.accounts", "privacy"),
        ("app.services.discussion.comments", "notifications"),
        ("app.services.sharing.following", "notifications"),
        ("app.services.sharing.sharing", "notifications"),
        ("app.services.subscriptions.bulk_edit", "notifications"),
        ("app.services.subscriptions.subscriptions", "notifications"),
    }
)

_COMMANDS = ("app.embedded", "app.commands")
_PROCESSES = ("workers", "queue_manager", "controller")

#: Library → who may import it; () is nobody.
LIBRARIES: Mapping[str, tuple[str, ...]] = {
    "flask": ("app.web", "app.application", "app"),
    "werkzeug": ("app.web",),
    "jinja2": ("app.web",),
    "pymongo": ("app.mappers", "app.bootstrap", "app.monitoring.health", *_COMMANDS),
    "bson": ("app.mappers",),
    "gridfs": (),
    "rq": ("workers", "queue_manager", "app.adapters.redis.jobs"),
    "redis": (
        *_PROCESSES,
        "app.adapters.redis",
        "app.monitoring.health",
        "app.runtime.redis_errors",
        "app.runtime.redis_connections",
        "app.bootstrap",
        *_COMMANDS,
    ),
    # Feeds are fetched in one place, where every address is checked (security.md S01). Administrators name
    # the servers of media stores.
    "pycurl": ("app.feeds.fetch", "app.adapters.media.dav"),
    "obstore": ("app.adapters.media.s3",),
    "socket": ("app.feeds.fetch", *_PROCESSES, *_COMMANDS),
    "http.client": (*_COMMANDS, "app.adapters.search.remote"),
    "urllib.request": (),
    "requests": (),
    # What people type becomes HTML in one place.
    "bleach": ("app.feeds.html.linkify",),
    # Keys and signatures are made in one place.
    "cryptography": ("app.feeds.webpush.crypto", "app.feeds.sealing"),
    "http_ece": ("app.feeds.webpush.crypto",),
    "py_vapid": ("app.feeds.webpush.crypto",),
    # Another search engine takes its place behind the port.
    "tantivy": ("app.adapters.search.tantivy_index",),
    "Stemmer": ("app.models.reading.stems",),
    # Decoders of pictures are only met in one place, in a child process with limits.
    "PIL": ("app.adapters.media.drawing",),
    # Its addresses are secrets, and it takes much memory.
    "apprise": ("app.adapters.apprise",),
    "httpx": (),
    "aiohttp": (),
    # Reading them runs code.
    "pickle": (),
    "marshal": (),
    "shelve": (),
    "subprocess": ("queue_manager", *_COMMANDS),
}


@dataclasses.dataclass(frozen=True)
class Breach:
    """One import that no rule allows."""

    module: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line} must not import {self.name}"


def modules() -> Iterator[tuple[str, Path]]:
    """Yield name and file of each module of ours."""
    for folder in OURS:
        for path in sorted((REPO / folder).rglob("*.py")):
            parts = path.relative_to(REPO).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def breaches(module: str, source: str, *, is_package: bool = False) -> list[Breach]:
    """Return the forbidden imports of a module, also those inside functions."""
    return [
        Breach(module, line, name)
        for line, name in _imports(module, source, is_package)
        if not (_layer_allows(module, name) if _ours(name) else _library_allows(module, name))
    ]


def find_backward_imports(module: str, source: str, *, is_package: bool = False) -> set[tuple[str, str]]:
    """Return (module, domain) for each domain that a gateway or service imports against the order."""
    parts = module.split(".")
    if parts[:1] != ["app"] or parts[1:2] not in (["gateways"], ["services"]) or len(parts) < 4:
        return set()
    layer, own = ".".join(parts[:2]), DOMAINS.index(parts[2])
    found = set()
    for _, name in _imports(module, source, is_package):
        if name.startswith(f"{layer}."):
            domain = name.split(".")[2]
            if domain in DOMAINS and DOMAINS.index(domain) < own:
                found.add((module, domain))
    return found


def _imports(module: str, source: str, is_package: bool) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = _origin(module, node, is_package)
            # Of ours, "from app import bootstrap" names the module app.bootstrap.services.
            yield from ((node.lineno, f"{origin}.{alias.name}") for alias in node.names)


def _origin(module: str, node: ast.ImportFrom, is_package: bool) -> str:
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    base = parts[: len(parts) - node.level + (1 if is_package else 0)]
    return ".".join([*base, *([node.module] if node.module else [])])


def _layer_allows(module: str, name: str) -> bool:
    layer = _longest(module, LAYERS)
    if layer is None:
        return False
    if LAYERS[layer] == _EVERYTHING:
        return True
    restricted = _longest(name, RESTRICTED)
    return _under(name, (layer, *LAYERS[layer]), exact=("app",)) and (
        restricted is None or _under(module, (restricted, *RESTRICTED[restricted]))
    )


def _library_allows(module: str, name: str) -> bool:
    library = _longest(name, LIBRARIES)
    return library is None or _under(module, LIBRARIES[library], exact=("app",))


def _ours(name: str) -> bool:
    return name.split(".")[0] in OURS


def _longest(name: str, table: Mapping[str, object]) -> str | None:
    """Return the longest key that is ``name`` or a package around it; "app" is the package itself alone."""
    found = [key for key in table if _under(name, (key,), exact=("app",))]
    return max(found, key=len, default=None)


def _under(name: str, prefixes: tuple[str, ...], *, exact: tuple[str, ...] = ()) -> bool:
    return any(
        name == prefix or (name.startswith(prefix + ".") and prefix not in exact) for prefix in prefixes
    )


#: Gateway methods that only hand their arguments to a mapper. Services must not import mappers, so each of
#: these stands for an import that the layers forbid. The number may only shrink.
DELEGATES = 60


def find_delegates(source: str) -> list[str]:
    """Return the public methods, as ``Class.method``, that only hand on their arguments."""
    found = []
    for node in ast.walk(ast.parse(source)):
        for method in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(method, ast.FunctionDef) and not method.name.startswith("_") and _delegates(method):
                found.append(f"{node.name}.{method.name}")  # type: ignore[attr-defined]
    return found


def _delegates(method: ast.FunctionDef) -> bool:
    body = [s for s in method.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    if len(body) != 1 or not isinstance(body[0], ast.Return | ast.Expr):
        return False
    call = body[0].value
    if not isinstance(call, ast.Call) or not re.fullmatch(r"self\.\w+\.\w+", ast.unparse(call.func)):
        return False
    own = {argument.arg for argument in (*method.args.args, *method.args.kwonlyargs)}
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return all(isinstance(value, ast.Name) and value.id in own for value in given)
