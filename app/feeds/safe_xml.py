"""The one XML parser for foreign documents: no entities, DTD or network; libxml2's limits stay on."""

from __future__ import annotations

from lxml import etree


def build_safe_parser(*, recover: bool = False) -> etree.XMLParser:
    """Return a new parser that reads UTF-8 and expands, loads and fetches nothing (security.md X01).

    Don't share a parser between threads that run at the same time.

    Args:
        recover: read on after an error, as far as libxml2 can.
    """
    return etree.XMLParser(
        encoding="utf-8",
        recover=recover,
        resolve_entities=False,
        load_dtd=False,
        no_network=True,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
