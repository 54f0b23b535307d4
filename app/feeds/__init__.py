"""Feeds: discovery, fetching, parsing, scheduling, OPML, WebSub and Web Push."""
