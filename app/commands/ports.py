"""Port checks: find out whether a port is free, with an error message that names the setting."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence

from app.embedded.child import poll
from app.errors import StartupError

#: Seconds to wait for a port: after a kill -9 the old workers hold it for a moment.
_PATIENCE = 3.0


def require_free(host: str, port: int, settings: Sequence[str] = ("EVENTR_HOST", "EVENTR_PORT")) -> int:
    """Return ``port``, or a free port for 0.

    Args:
        host: the address to listen on.
        port: the port; 0 for any free one.
        settings: the variables for host and port, in this order; one variable may set both.

    Raises:
        StartupError: the port is in use, or listening on it isn't possible.
    """
    failure: list[OSError] = []
    bound: list[int] = []

    def try_bind() -> bool:
        failure.clear()
        try:
            bound.append(_bind(host, port))
        except OSError as e:
            failure.append(e)
        except UnicodeError:
            failure.append(socket.gaierror())  # not a host name at all, such as "a..b"
        return not failure or failure[0].errno != errno.EADDRINUSE

    poll(try_bind, _PATIENCE, step=0.1)
    if failure:
        raise StartupError(_sentence(host, port, failure[0], settings)) from failure[0]
    return bound[0]


def _bind(host: str, port: int) -> int:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as gunicorn does
        probe.bind(address)
        return int(probe.getsockname()[1])


def _sentence(host: str, port: int, error: OSError, settings: Sequence[str]) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"Port {port} on {host} is already in use. Stop the program that uses it, or "
            f"change {settings[-1]}."
        )
    if isinstance(error, socket.gaierror):
        return f"{settings[0]} is {host}, which isn't an address of this machine."
    what = f"Can't listen on port {port} of {host} ({error.strerror})"
    return f"{what}. Change {' or '.join(settings)}."
