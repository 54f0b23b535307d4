"""Proxy probes: requests that test what a reverse proxy lets through, and fixes for its configuration.

On the page ``/check`` a browser sends them; ``eventr check`` sends them itself.
"""

from __future__ import annotations

import dataclasses
from urllib.parse import quote

from app.errors import N_

#: Bytes of a form with 9,999 ids, as RSS Guard sends it, and some reserve.
BODY = 700 * 1024
#: The header value of the authorization probe; it gives no access.
AUTHORIZATION = "GoogleLogin auth=eventr-check"
ETAG = "eventr-check"
PATH = "feed/17"
QUERY = "a+b c&d e"
#: An unused address (RFC 5737), which no proxy can have seen.
FORGED = "203.0.113.7"


@dataclasses.dataclass(frozen=True, slots=True)
class Probe:
    """One request.

    Attributes:
        path: with ``{origin}`` for the client's own address, escaped.
        size: bytes of the body. A passing response is 200 with ``ok`` in JSON.
        twice: send it twice; the responses must differ.
        again: send it again with the ``ETag`` of the response as ``If-None-Match``; the response must be 304.
        by_hand: a link or a button can send it, without a script.
        title, wrong, fix: the tested property, the effect of a failure, the change to make.
        lines: (server, lines for its configuration).
    """

    name: str
    path: str
    title: str
    wrong: str
    fix: str
    lines: tuple[tuple[str, str], ...] = ()
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    size: int = 0
    twice: bool = False
    again: bool = False
    by_hand: bool = True

    def build_path(self, origin: str) -> str:
        """Return the path for a client that uses this origin."""
        return self.path.replace("{origin}", quote(origin, safe=""))


_BACKEND = "127.0.0.1:8080"
_WHOLE = f"proxy_pass http://{_BACKEND};  # nothing after the port"
_NOCANON = f'AllowEncodedSlashes NoDecode\nProxyPass "/" "http://{_BACKEND}/" nocanon'

PROBES: tuple[Probe, ...] = (
    Probe(
        "origin",
        "/check/origin?origin={origin}",
        N_("The address matches EVENTR_BASE_URL"),
        N_("Forms are rejected, and links point to the wrong address."),
        N_(
            "Set EVENTR_BASE_URL to the address in your browser's address bar, and "
            "EVENTR_TRUSTED_PROXIES to the number of proxies. Have the proxy pass on the host and "
            "scheme."
        ),
        (
            ("nginx", "proxy_set_header Host $host;\nproxy_set_header X-Forwarded-Proto $scheme;"),
            ("Apache", 'ProxyPreserveHost On\nRequestHeader set X-Forwarded-Proto "https"'),
            ("Caddy", f"reverse_proxy {_BACKEND}"),
        ),
    ),
    Probe(
        "secure",
        "/check/secure?origin={origin}",
        N_("The connection is encrypted (HTTPS) or stays on this machine"),
        N_("Anyone on the network path can read passwords."),
        N_("Give the proxy a certificate, and start EVENTR_BASE_URL with https://."),
        (
            ("nginx", "listen 443 ssl;\nssl_certificate …;\nssl_certificate_key …;"),
            ("Apache", "SSLEngine on\nSSLCertificateFile …\nSSLCertificateKeyFile …"),
            ("Caddy", f"reader.example.org {{\n    reverse_proxy {_BACKEND}\n}}"),
        ),
    ),
    Probe(
        "slash",
        "//check/slash",
        N_("Two slashes at the start of a path count as one"),
        N_("Newsboat and other apps fail if the server address was entered with a slash at the end."),
        N_("Have the proxy pass on paths unchanged."),
        (
            ("nginx", f"merge_slashes on;\n{_WHOLE}"),
            ("Apache", f'MergeSlashes On\nProxyPass "/" "http://{_BACKEND}/" nocanon'),
            ("Caddy", f"# no handle_path, no uri\nreverse_proxy {_BACKEND}"),
        ),
    ),
    Probe(
        "path",
        f"/check/path/{quote(PATH, safe='')}",
        N_("An escaped slash arrives unchanged"),
        N_("Apps that request a feed by its ID, such as Newsboat, Liferea and Vienna, find nothing."),
        N_(
            "Have the proxy pass on escaped characters unchanged. It mustn't reject, decode or "
            "re-escape them."
        ),
        (
            ("nginx", _WHOLE),
            ("Apache", _NOCANON),
            ("Caddy", f"# no handle_path, no uri\nreverse_proxy {_BACKEND}"),
        ),
    ),
    Probe(
        "query",
        f"/check/query?q={quote(QUERY, safe='').replace('%20e', '+e')}&n=2",
        N_("Plus signs, spaces and ampersands in a query arrive unchanged"),
        N_("Apps get different lists from the ones they request."),
        N_("Remove any proxy rules that rewrite addresses."),
        (
            ("nginx", _WHOLE),
            ("Apache", "RewriteEngine Off"),
            ("Caddy", f"# no rewrite\nreverse_proxy {_BACKEND}"),
        ),
    ),
    Probe(
        "authorization",
        "/check/authorization",
        N_("The Authorization header arrives"),
        N_("Apps can log in, but all their other requests are rejected."),
        N_("Have the proxy pass on the header, and turn off the proxy's own password prompt."),
        (
            ("nginx", "proxy_set_header Authorization $http_authorization;\nauth_basic off;"),
            ("Apache", '<Location "/">\n    AuthType None\n    Require all granted\n</Location>'),
            ("Caddy", f"# no basic_auth\nreverse_proxy {_BACKEND}"),
        ),
        headers=(("Authorization", AUTHORIZATION),),
        by_hand=False,
    ),
    Probe(
        "body",
        "/check/body",
        N_("A 700 kB request arrives"),
        N_("Apps that mark or fetch many entries at once fail. For example, RSS Guard sends 10,000 IDs."),
        N_("Raise the proxy's limit on request bodies. Eventr's own limit is EVENTR_API_MAX_BYTES."),
        (
            ("nginx", "client_max_body_size 6m;"),
            ("Apache", "LimitRequestBody 6291456"),
            ("Caddy", "request_body {\n    max_size 6MB\n}"),
        ),
        method="POST",
        headers=(("Content-Type", "application/x-www-form-urlencoded"),),
        size=BODY,
    ),
    Probe(
        "etag",
        "/check/etag",
        N_("Unchanged content isn't sent again (ETag, HTTP 304)"),
        N_("Apps download everything on each refresh, which uses extra data and time."),
        N_("Have the proxy pass on If-None-Match and HTTP 304 responses."),
        (
            ("nginx", "proxy_set_header If-None-Match $http_if_none_match;"),
            ("Apache", "DeflateAlterETag NoChange"),
            ("Caddy", "# no header -ETag"),
        ),
        again=True,
        by_hand=False,
    ),
    Probe(
        "fresh",
        "/check/fresh",
        N_("The proxy doesn't cache responses"),
        N_("People see outdated pages, or pages meant for someone else."),
        N_("Turn off the proxy's cache for this server."),
        (
            ("nginx", "proxy_cache off;"),
            ("Apache", "CacheDisable /"),
            ("Caddy", "# no cache"),
        ),
        twice=True,
    ),
    Probe(
        "forwarded",
        "/check/forwarded",
        N_("Clients can't fake their network address"),
        N_(
            "The limit on wrong passwords doesn't work, because an attacker can use a new fake "
            "address for each attempt."
        ),
        N_(
            "Set EVENTR_TRUSTED_PROXIES to the number of proxies in front of Eventr (0 for none). "
            "Block connections that bypass them."
        ),
        (
            ("nginx", "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;"),
            ("Apache", "ProxyAddHeaders On"),
            ("Caddy", f"# no trusted_proxies\nreverse_proxy {_BACKEND}"),
        ),
        headers=(("X-Forwarded-For", FORGED),),
        by_hand=False,
    ),
)
BY_NAME = {probe.name: probe for probe in PROBES}
