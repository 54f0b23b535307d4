"""Transfer: one fetch from its first address to its result; which hop is next, what a response means.

No I/O here: the engine calls :meth:`Transfer.finish_hop` after each hop. Then the engine requests the next
endpoint or returns the result to the caller. Rules: security.md S09 and S11, X05; RFC 9110 §13 and §15.
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urlsplit

import xxhash

from app.config import Settings
from app.errors import FetchError, InvalidError
from app.feeds.fetch import headers
from app.feeds.fetch.address_policy import Endpoint, Policy, check_headers
from app.feeds.fetch.body import decode, decode_start
from app.feeds.fetch.cookies import CookieJar
from app.feeds.fetch.headers import Head
from app.feeds.fetch.refresh import find_meta_refresh
from app.feeds.urls import is_upgrade, repair_location, strip_tracking
from app.models.feeds.chapters import CHAPTERS_BYTES
from app.models.feeds.fetched import PICTURES, Fetched, FetchRequest, Target, Validators
from app.models.feeds.hosts import PICTURE_PREFIX, is_same_site

Done = Callable[[Fetched], None]

_ACCEPT = {
    Target.FEED: "Accept: application/atom+xml, application/rss+xml, application/feed+json, "
    "application/rdf+xml;q=0.9, application/xml;q=0.8, text/xml;q=0.8, */*;q=0.5",
    Target.PAGE: "Accept: text/html, application/xhtml+xml, application/atom+xml;q=0.9, "
    "application/rss+xml;q=0.9, */*;q=0.5",
    Target.CHAPTERS: "Accept: application/json+chapters, application/json, */*;q=0.5",
    Target.DATA: "Accept: application/json, */*;q=0.5",
    **dict.fromkeys(PICTURES, "Accept: image/avif, image/webp, image/*;q=0.8, */*;q=0.5"),
}
_FORM = ["Accept: */*", "Accept-Encoding: gzip", "Content-Type: application/x-www-form-urlencoded"]
_HTML = ("text/html", "application/xhtml+xml")
#: The start of a page, after comments and an XML declaration; some pages begin with the refresh itself.
_PAGE = re.compile(
    rb"(?:\xef\xbb\xbf)?\s{0,1000}(?:(?:<\?xml\b[^>]{0,300}>|<!--[^>]{0,1000}-->)\s{0,1000}){0,3}"
    rb"<(?:!doctype\s{1,9}html|html|head|(?:title>[^<]{0,300}</title>\s{0,100}<)?meta)\b",
    re.IGNORECASE,
)
_NO_FIELDS: Mapping[str, str] = {}


@dataclasses.dataclass(slots=True)  # not frozen: one is made per fetch, and freezing doubles the cost
class HopResult:
    """The result of one hop: status, raw field lines and wire body, or the error that ended it.

    ``is_over``: the body was longer than the limit, and ``wire`` is its start.
    """

    status: int
    lines: Sequence[bytes] = ()
    wire: bytes = b""
    wire_bytes: int = 0
    error: FetchError | None = None
    is_over: bool = False


class Transfer:
    """The state of one fetch.

    Attributes:
        endpoint: the current hop.
        requested: whether the hop is at the requested host and never left it (S11).
        pinned: the addresses that this hop may connect to.
        left: unused seconds of the total timeout; waiting for a slot doesn't count.
        deadline: of the whole fetch, on the monotonic clock.
        dns_until: when the resolver must have answered; meaningless once connecting.
    """

    __slots__ = (
        "_chain_is_permanent",
        "_cookies",
        "_hops",
        "_most",
        "_own_headers",
        "_permanent_url",
        "_refreshed",
        "_settings",
        "_wire_bytes",
        "deadline",
        "dns_until",
        "done",
        "endpoint",
        "left",
        "pinned",
        "policy",
        "request",
        "requested",
        "started",
    )

    def __init__(self, request: FetchRequest, done: Done, settings: Settings, policy: Policy) -> None:
        self.request, self.done = request, done
        self.endpoint = Endpoint("", "", 0, request.url, is_ip_literal=False)  # until begin()
        self.requested = True
        self.pinned: tuple[str, ...] = ()
        most = get_total_timeout(request, settings)
        self.left = self._most = min(request.within or most, most)
        self.deadline = self.dns_until = self.started = 0.0
        self._settings, self.policy = settings, policy
        self._hops = 0
        self._cookies: CookieJar | None = None  # most fetches have no redirect
        self._refreshed = False
        self._own_headers = bool(request.headers)
        self._chain_is_permanent = True
        self._permanent_url: str | None = None
        self._wire_bytes = 0

    @property
    def max_bytes(self) -> int:
        """The most bytes that a decoded body may have."""
        settings = self._settings
        match self.request.target:
            case Target.FEED:
                return settings.fetch_max_feed
            case Target.PICTURE:
                return settings.fetch_max_picture
            case Target.ICON:
                return settings.fetch_max_icon
            case Target.CHAPTERS:
                return CHAPTERS_BYTES
            case Target.DATA:
                return settings.import_pull_bytes
            case _:
                return settings.fetch_max_page

    @property
    def queue(self) -> str:
        """The queue in which it waits: the host's, or for pictures another one of the same host.

        Otherwise an album of pictures would delay the feeds of its host.
        """
        host = self.endpoint.host
        return PICTURE_PREFIX + host if self.request.target in PICTURES else host

    @property
    def keeps_body(self) -> bool:
        """Whether the body of a success is read."""
        return self.request.form is None or self.request.reads_reply

    @property
    def keeps_start(self) -> bool:
        """Whether the start of a longer body is kept: a feed's newest entries, which usually come first."""
        return self.request.target is Target.FEED

    def begin(self) -> None:
        """Check the requested address and headers.

        Raises:
            FetchError: ``invalid_url``, ``login_in_url`` or ``refused``.
        """
        request = self.request
        self.started = time.monotonic()
        if request.headers:
            try:
                check_headers(request.headers)
            except InvalidError as e:
                raise FetchError("refused", e.message) from e
        if request.referred_by is None:
            self.endpoint = self.policy.check_url(request.url)
            return
        referrer = self.policy.check_url(request.referred_by)
        self.endpoint = self.policy.check_target(referrer, request.url, requested=True)
        self.requested = self.endpoint.host == referrer.host

    def build_header_lines(self) -> list[str]:
        """Return the header lines of this hop, except Host and User-Agent."""
        request = self.request
        lines = [_ACCEPT[request.target], "Accept-Encoding: gzip"] if request.form is None else [*_FORM]
        known = request.validators
        if known.etag and known.etag.isprintable():
            lines.append(f"If-None-Match: {known.etag}")
        if known.last_modified and known.last_modified.isprintable():
            lines.append(f"If-Modified-Since: {known.last_modified}")
        if self._cookies is not None:
            here = self.endpoint
            path = urlsplit(here.url).path
            if cookies := self._cookies.build_header(here.scheme, here.host, path):
                lines.append(f"Cookie: {cookies}")
        if self._own_headers:
            given = {name.lower() for name, _ in request.headers}
            lines = [line for line in lines if line.partition(":")[0].lower() not in given]
            lines += [f"{name}: {value}" if value else f"{name};" for name, value in request.headers]
        return lines

    def finish_hop(self, result: HopResult) -> Fetched | None:
        """Return the result of the fetch, or None when :attr:`endpoint` is the next hop."""
        self._wire_bytes += result.wire_bytes
        try:
            if result.error is not None:
                raise result.error
            if result.status in headers.REDIRECTS and self.request.follow:
                before = self.endpoint
                self._keep_cookies(result.lines)
                self._follow(
                    headers.read_location(result.lines), permanent=result.status in headers.PERMANENT
                )
                if self.request.form is not None:
                    _check_form_redirect(result.status, before, self.endpoint)
                return None
            return self._answer(
                headers.read_head(result.status, result.lines),
                result.lines,
                result.wire,
                is_over=result.is_over,
            )
        except FetchError as e:
            return self.fail(e, result.status, result.lines)

    def fail(self, error: FetchError, status: int = 0, lines: Sequence[bytes] = ()) -> Fetched:
        """Return the result of a fetch that failed."""
        head = headers.read_head(status, lines) if lines else None
        return self._end(status, head, error=error)

    def _answer(self, head: Head, lines: Sequence[bytes], wire: bytes, *, is_over: bool) -> Fetched | None:
        status, known = head.status, self.request.validators
        if status == 304 and (known.etag or known.last_modified):
            return self._end(status, head, unchanged=True, body_hash=known.body_hash)
        if status in (204, 205) and self.keeps_body:
            raise FetchError("empty", f"HTTP {status}")
        if not 200 <= status < 300:
            raise FetchError("gone" if status == 410 else f"http_{status}", f"HTTP {status}")
        if not self.keeps_body:
            return self._end(status, head)
        if status == 206:
            raise FetchError("bad_response", "partial content, although the whole was requested")
        if not wire:
            raise FetchError("empty", "no body")
        digest = xxhash.xxh3_128_digest(wire)
        if digest == known.body_hash:
            return self._end(status, head, unchanged=True, body_hash=digest)
        body, is_cut = self._decode(head, wire, is_over=is_over)
        if self._refresh(head, body, lines):
            return None
        return self._end(status, head, body=body, body_hash=digest, limit=self.max_bytes if is_cut else 0)

    def _decode(self, head: Head, wire: bytes, *, is_over: bool) -> tuple[bytes, bool]:
        """Return the body, and whether it is only the start of a longer one."""
        ratio, coding = self._settings.fetch_max_ratio, headers.read_coding(head.fields)
        if self.keeps_start:
            body, is_cut = decode_start(wire, coding, limit=self.max_bytes, ratio=ratio, is_over=is_over)
        else:
            body, is_cut = decode(wire, coding, limit=self.max_bytes, ratio=ratio), False
        # A large picture would be copied for this.
        if self.request.target not in PICTURES and not body.strip():
            raise FetchError("empty", "nothing but white space")
        return body, is_cut

    def _refresh(self, head: Head, body: bytes, lines: Sequence[bytes]) -> bool:
        """Follow a page's meta refresh, once (S09); return whether it leads to another page."""
        if (
            self._refreshed
            or not self.request.follow
            or self.request.target in PICTURES
            or not head.fields.get("content-type", _HTML[0]).lower().startswith(_HTML)
        ):
            return False
        # A feed may be sent as HTML, and its entries may hold any markup.
        is_page = self.request.target is Target.PAGE or _PAGE.match(body)
        target = find_meta_refresh(body) if is_page else None
        if target is None:
            return False
        before = self.endpoint.url
        self._keep_cookies(lines)
        self._follow(target, permanent=False)
        self._refreshed = True
        # A page that refreshes itself is the result.
        return self.endpoint.url != before

    def _keep_cookies(self, lines: Sequence[bytes]) -> None:
        """Keep the cookies of a response for the next hops of this fetch, except those of a form."""
        if self.request.form is None and any(line[:11].lower() == b"set-cookie:" for line in lines):
            self._cookies = self._cookies or CookieJar()
            self._cookies.store_cookies(self.endpoint.host, lines)

    def _follow(self, target: str, *, permanent: bool) -> None:
        self._hops += 1
        if self._hops > self._settings.fetch_redirects:
            raise FetchError("too_many_redirects", f"more than {self._settings.fetch_redirects}")
        here = self.endpoint
        try:
            there = self.policy.check_target(here, repair_location(target), requested=self.requested)
        except FetchError as e:
            raise FetchError("bad_redirect", f"{e.word}: {e.detail}") from e
        self.endpoint = there
        # Once lost, both stay lost: a chain might leave a host only to come back (S09, S11).
        self.requested = self.requested and there.host == here.host
        self._own_headers = self._own_headers and is_same_site(here.url, there.url)
        # Eventr follows a step down to http, but doesn't store it: it would last for all readers.
        is_downgrade = is_upgrade(there.url, here.url)
        self._chain_is_permanent = self._chain_is_permanent and permanent and not is_downgrade
        if self._chain_is_permanent:
            # The redirect is followed unchanged, but tracking parameters aren't stored (H13).
            lasting = strip_tracking(there.url)
            self._permanent_url = lasting if lasting != self.request.url else None

    def _end(
        self,
        status: int,
        head: Head | None,
        *,
        body: bytes | None = None,
        unchanged: bool = False,
        body_hash: bytes | None = None,
        error: FetchError | None = None,
        limit: int = 0,
    ) -> Fetched:
        validators = self.request.validators
        if head is not None and error is None:
            validators = _validators(validators, head, body_hash)
            if self._refreshed:
                # They're those of the feed. The page that leads to it would answer 304 to them for ever.
                validators = Validators(body_hash=body_hash)
        fields = head.fields if head is not None else _NO_FIELDS
        now = time.monotonic()
        # No deadline is set before the first hop has a connection.
        spent = self._most + now - self.deadline if self.deadline else 0.0
        return Fetched(
            self.request,
            status,
            self.endpoint.url,
            self._permanent_url,
            body,
            unchanged,
            fields.get("content-type"),
            validators,
            fields,
            headers.read_retry_after(head) if head is not None else None,
            round((now - self.started) * 1000),
            self._wire_bytes,
            error,
            limit,
            spent,
        )


def get_total_timeout(request: FetchRequest, settings: Settings) -> float:
    """Return the seconds that a whole fetch may take."""
    most = settings.fetch_total_timeout
    return max(most, settings.fetch_slow_total_timeout) if request.slow else most


def get_first_byte_timeout(request: FetchRequest, settings: Settings) -> float:
    """Return the seconds that the first byte of a response may take."""
    most = settings.fetch_first_byte_timeout
    return max(most, settings.fetch_slow_first_byte_timeout) if request.slow else most


def _check_form_redirect(status: int, before: Endpoint, after: Endpoint) -> None:
    """Refuse redirects that would drop the form's method, or send the form unencrypted."""
    if status not in headers.KEEP_METHOD:
        raise FetchError("bad_redirect", f"HTTP {status} doesn't keep the request method of a form")
    if before.scheme == "https" and after.scheme != "https":
        raise FetchError("bad_redirect", "from https to http with a form")


def _validators(known: Validators, head: Head, body_hash: bytes | None) -> Validators:
    """Return the validators to send next time."""
    etag, modified = head.get_validator("etag"), head.get_validator("last-modified")
    if head.status == 304:
        # A 304 need not repeat the validators (RFC 9110 §15.4.5).
        etag, modified = etag or known.etag, modified or known.last_modified
        if etag == known.etag and modified == known.last_modified:
            return known
    return Validators(etag, modified, body_hash)
