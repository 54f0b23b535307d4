"""IP addresses: parsing, and which addresses are public on the internet (S06). Pure."""

from __future__ import annotations

import ipaddress
import re
from bisect import bisect_right
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_QUAD = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}")


def parse_networks(text: str) -> tuple[Network, ...]:
    """Return the networks listed in a text, separated by white space."""
    return tuple(map(ipaddress.ip_network, text.split()))


# IPv4: IANA special-purpose registry (RFC 6890), multicast, class E, and Azure's wire server.
SPECIAL_V4: Final = parse_networks(
    "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 168.63.129.16/32 169.254.0.0/16 172.16.0.0/12 "
    "192.0.0.0/24 192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 "
    "192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4"
)
# Their borders in order: every fetch checks them, and one search is faster than a comparison with each.
_V4_FIRST = sorted(int(network[0]) for network in SPECIAL_V4)
_V4_LAST = sorted(int(network[-1]) for network in SPECIAL_V4)

# IPv6: only global unicast (RFC 4291 §2.4), without protocol assignments (such as Teredo),
# documentation, 6to4 and the AS112 sink.
GLOBAL_V6: Final = ipaddress.IPv6Network("2000::/3")
SPECIAL_V6: Final = parse_networks("2001::/23 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20")
#: ISATAP (RFC 5214 §6.1) hides an IPv4 address behind any prefix, after one of these words.
ISATAP: Final = (0x00005EFE, 0x02005EFE)


def parse_address(text: str) -> Address:
    """Return the IP address in a text: as strict as :func:`ipaddress.ip_address`, but faster.

    Raises:
        ValueError: the text isn't an IP address.
    """
    if _QUAD.fullmatch(text):
        return ipaddress.IPv4Address(int.from_bytes(map(int, text.split(".")), "big"))
    return ipaddress.ip_address(text)


def is_public(address: Address) -> bool:
    """Return whether an address is global unicast and not special-purpose."""
    if isinstance(address, ipaddress.IPv4Address):
        number = int(address)
        place = bisect_right(_V4_FIRST, number) - 1
        return place < 0 or number > _V4_LAST[place]
    if address.scope_id or address not in GLOBAL_V6:
        return False
    if (int(address) >> 32) & 0xFFFFFFFF in ISATAP:
        return False
    return not any(address in network for network in SPECIAL_V6)
