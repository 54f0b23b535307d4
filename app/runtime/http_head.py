"""The head of an HTTP request, read by h11, for the small servers inside our processes."""

from __future__ import annotations

import dataclasses

import h11

#: Longer heads are refused; browsers send their cookies along.
HEAD_MAX = 32 << 10
_END = b"\r\n\r\n"


@dataclasses.dataclass(frozen=True, slots=True)
class RequestHead:
    """Method, target and header fields of a request.

    Attributes:
        target: path and query as sent.
        fields: lower-case name → value; the values of a repeated field are joined by commas.
        repeated: names that were sent more than once.
    """

    method: str
    target: str
    fields: dict[str, str]
    repeated: frozenset[str]


def parse_request_head(head: bytes) -> RequestHead:
    """Parse the head of a request, with or without the empty line at its end (RFC 9112).

    Raises:
        ValueError: it breaks the rules of HTTP, or is longer than :data:`HEAD_MAX`.
    """
    if len(head) > HEAD_MAX:
        raise ValueError("head too long")
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_MAX)
    try:
        connection.receive_data(head.removesuffix(_END) + _END)
        event = connection.next_event()
    except h11.RemoteProtocolError as e:
        raise ValueError(str(e)) from e
    if not isinstance(event, h11.Request):
        raise ValueError("not a request")
    fields: dict[str, str] = {}
    repeated = set()
    for raw_name, raw_value in event.headers:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        if name in fields:
            repeated.add(name)
        fields[name] = f"{fields[name]},{value}" if name in fields else value
    return RequestHead(
        event.method.decode("latin-1"), event.target.decode("latin-1"), fields, frozenset(repeated)
    )
