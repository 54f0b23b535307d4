"""Frozen dataclasses, one type per stage of life; they know nothing of stores, sockets or HTTP."""
