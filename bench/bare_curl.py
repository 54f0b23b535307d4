"""The baseline for fetching: libcurl's multi interface with as little Python as possible.

No address rules, resolver, redirects, limits, deadlines or queues. Handles are reused. Only the work that any
client of conditional requests must do remains: setting header lines per request, collecting the answer's
header lines and body, reading the status.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import pycurl


def bare_curl_loop(urls: Sequence[str], headers: Sequence[str] = (), *, connections: int = 50) -> float:
    """Fetch all URLs and return the CPU seconds of this process.

    Args:
        headers: Header lines for each request, for example ``If-None-Match: "1"``.
        connections: Concurrent transfers.

    Raises:
        RuntimeError: A fetch failed.
    """
    multi, idle = pycurl.CurlMulti(), [_handle() for _ in range(connections)]
    waiting, running = iter(urls), 0
    started = time.process_time()
    while True:
        while idle and (url := next(waiting, None)) is not None:
            curl = idle.pop()
            curl.setopt(pycurl.URL, url)
            curl.setopt(pycurl.HTTPHEADER, ["Accept-Encoding: gzip", *headers])
            multi.add_handle(curl)
            running += 1
        if not running:
            break
        multi.perform()
        _, good, bad = multi.info_read(connections)
        if bad:
            raise RuntimeError(f"{bad[0][2]} (curl {bad[0][1]})")
        for curl in good:
            if curl.getinfo(pycurl.RESPONSE_CODE) >= 400:
                raise RuntimeError("the server answered with an error")
            multi.remove_handle(curl)
            idle.append(curl)
        running -= len(good)
        if not good:
            multi.select(1.0)
    spent = time.process_time() - started
    for curl in idle:
        curl.close()
    multi.close()
    return spent


def _handle() -> pycurl.Curl:
    curl = pycurl.Curl()
    curl.setopt(pycurl.NOSIGNAL, 1)
    curl.setopt(pycurl.PROXY, "")
    curl.setopt(pycurl.HEADERFUNCTION, [].append)
    curl.setopt(pycurl.WRITEFUNCTION, [].append)
    return curl
