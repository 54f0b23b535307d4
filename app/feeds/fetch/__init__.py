"""Fetching: pycurl under our own redirects, resolver, limits and address rules. See ``fetcher.Fetcher``."""

from __future__ import annotations
