"""Files and pictures: decoding them, and the places where they are stored."""

from __future__ import annotations
