"""Media types by content."""

from __future__ import annotations

import pytest

from app.models.media.sniff import sniff
from tests.media import pictures
from tests.support import corpus

_TYPES = {
    "JPEG": "image/jpeg",
    "MPO": "image/jpeg",
    "PNG": "image/png",
    "GIF": "image/gif",
    "WEBP": "image/webp",
    "AVIF": "image/avif",
    "ICO": "image/vnd.microsoft.icon",
    "BMP": "image/bmp",
    "TIFF": "image/tiff",
}


def test_pictures_of_the_corpus_are_recognized() -> None:
    rows = [row for row in corpus.rows("image") if row.path.startswith("images/")]
    known = [row for row in rows if row.data["reference"]["format"] in _TYPES]
    assert len(known) > 100
    for row in known:
        assert sniff(row.read()[:64]) == _TYPES[row.data["reference"]["format"]], row.path


@pytest.mark.parametrize(
    "head",
    [
        *(
            b"",
            b"<",
            b"<!doctype html><html>",
            b"<?xml version='1.0'?><svg/>",
            b"<svg xmlns='x'>",
            b"GIF",
            b"GIF88a",
        ),
        *(b"BM is a text", b"\xff\xd8", b"RIFF\0\0\0\0JUNK", b"#!/bin/sh", b"<?php", b"PK", bytes(64)),
    ],
)
def test_markup_and_texts_have_no_type(head: bytes) -> None:
    assert sniff(head) is None


def test_an_avif_is_recognized_by_any_of_its_brands() -> None:
    data = pictures.save(pictures.paint(8, 8), "AVIF")
    assert sniff(data[:64]) == "image/avif"
    general = data[:8] + b"mif1" + data[12:16] + b"avif" + data[20:64]
    assert sniff(general) == "image/avif"
    assert sniff(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic") == "image/heic"
    assert sniff(b"\0\0\0\x18ftypisom\0\0\0\0isommp41") == "video/mp4"
