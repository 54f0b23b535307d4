"""Charsets: the corpus of 191 texts in 40 encodings, and the order in which claims are believed."""

from __future__ import annotations

import codecs

import pytest

from app.feeds.parse.charset import decode, find_declared_charset, lookup, to_utf8
from tests.support.corpus import rows

TEXT = "Grüße – „ok“ Žluťoučký"
#: Browsers read these labels as a wider charset, which has other characters for some codes ("～", "·").
WIDER = {"SHIFT_JIS": "cp932", "GB2312": "gb18030"}
#: Python has no codec for it, so that the sample cannot be compared; it still becomes text.
NO_CODEC = {"EUC-TW"}


def test_X07_every_text_of_the_corpus_is_read_in_its_charset() -> None:
    wrong, checked = [], 0
    for row in rows("encoding"):
        if row.expect is None:
            continue
        name, body = row.expect["value"], row.read()
        text, _ = decode(body)
        if name in NO_CODEC:
            assert text.count("\ufffd") < len(text) / 20
            continue
        checked += 1
        if text != body.decode(WIDER.get(name, name)).removeprefix("\ufeff"):
            wrong.append(f"{row.path}: {decode(body)[1]} instead of {name}")
    assert wrong == []
    assert checked >= 190


@pytest.mark.parametrize(
    ("body", "content_type", "charset"),
    [
        (TEXT.encode(), "text/xml; charset=iso-8859-1", "utf-8"),
        (b'<?xml version="1.0" encoding="iso-8859-1"?>' + TEXT.encode(), None, "utf-8"),
        (codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le"), "text/xml; charset=utf-8", "utf-16-le"),
        (codecs.BOM_UTF32_BE + TEXT.encode("utf-32-be"), None, "utf-32-be"),
        ("<a>é</a>".encode("utf-16-be"), None, "utf-16-be"),
        ("Žluťoučký kůň".encode("cp1250"), "text/xml; charset=windows-1250", "cp1250"),
        (
            b'<?xml version="1.0" encoding="windows-1250"?>' + "Žluťoučký".encode("cp1250"),
            "text/xml",
            "cp1250",
        ),
        (b'<meta charset="windows-1251">' + "Привет".encode("cp1251"), None, "cp1251"),
        (b"caf\xe9 \x93ok\x94", "text/xml; charset=iso-8859-1", "cp1252"),
    ],
)
def test_X07_the_order_of_claims(body: bytes, content_type: str | None, charset: str) -> None:
    text, found = decode(body, content_type)
    assert codecs.lookup(found).name == codecs.lookup(charset).name
    assert "\ufffd" not in text
    assert not text.startswith("\ufeff")


@pytest.mark.parametrize(
    "label", ["utf-7", "UTF-7", "unicode-1-1-utf-7", "x-user-defined", "replacement", "none", ""]
)
def test_X07_refused_labels(label: str) -> None:
    assert lookup(label) is None


def test_X07_utf_7_is_not_decoded_whoever_asks_for_it() -> None:
    body = b'<?xml version="1.0" encoding="utf-7"?><t>+ADw-script+AD4-</t>'
    assert "<script" not in decode(body, "text/xml; charset=utf-7")[0]


def test_X07_invalid_bytes_are_replaced() -> None:
    text, charset = decode(("ä" * 100).encode() + b"\xff\xfeend")
    assert charset == "utf-8"
    assert text.endswith("\ufffd\ufffdend")


@pytest.mark.parametrize("label", ["iso-8859-1", "latin1", "ascii", "us-ascii", "windows-1252", "cp1252"])
def test_labels_mean_what_browsers_mean(label: str) -> None:
    assert b"\x93".decode(lookup(label) or "") == "“"


@pytest.mark.parametrize(
    ("label", "codec"),
    [
        ("UTF_8", "utf-8"),
        ("utf 8", "utf-8"),
        ("ISO 8859-2", "iso8859-2"),
        ("ISO_8859_5", "iso8859-5"),
        ("win-1251", "cp1251"),
        ("Windows_1251", "cp1251"),
        ("CP-1250", "cp1250"),
        ("koi8_r", "koi8-r"),
        ("Shift JIS", "cp932"),
        ("EUC_JP", "euc_jp"),
        ("gb-2312", "gb18030"),
        ("Big-5", "big5hkscs"),
        ("IBM-866", "cp866"),
        ("Mac-Roman", "mac-roman"),
        ("cp-857", "cp857"),
    ],
)
def test_labels_in_other_spellings(label: str, codec: str) -> None:
    assert codecs.lookup(lookup(label) or "").name == codecs.lookup(codec).name
    head = f'<?xml version="1.0" encoding="{label}"?>'.encode()
    assert codecs.lookup(find_declared_charset(head) or "").name == codecs.lookup(codec).name


@pytest.mark.parametrize(
    "label", ["rot13", "base64", "idna", "unicode_escape", "utf_7", "zlib", "mbcs", "undefined"]
)
def test_X07_what_is_no_charset_is_refused(label: str) -> None:
    assert lookup(label) is None


@pytest.mark.parametrize("default", ["iso-8859-1", "ISO-8859-1", "us-ascii", "windows-1252"])
@pytest.mark.parametrize(
    ("declared", "text"),
    [("windows-1251", "Привет"), ("iso-8859-2", "Žluťoučký"), ("shift_jis", "日本語"), ("koi8-r", "Привет")],
)
def test_the_default_of_a_server_yields_to_a_declaration_that_fits(
    default: str, declared: str, text: str
) -> None:
    body = f'<?xml version="1.0" encoding="{declared}"?><t>{text}</t>'.encode(declared)
    assert text in decode(body, f"text/xml; charset={default}")[0]


@pytest.mark.parametrize("declared", ["utf-8", "shift_jis", "us-ascii", "none"])
def test_the_default_of_a_server_holds_where_a_declaration_does_not_fit(declared: str) -> None:
    body = f'<?xml version="1.0" encoding="{declared}"?><t>'.encode() + b"caf\xe9 \x85</t>"
    assert "café …" in decode(body, "text/xml; charset=iso-8859-1")[0]


def test_another_charset_of_the_server_counts_more_than_the_declaration() -> None:
    body = b'<?xml version="1.0" encoding="windows-1252"?>' + "Привет".encode("koi8-r")
    assert "Привет" in decode(body, "text/xml; charset=koi8-r")[0]


def test_halves_of_a_character_encoded_each_are_joined() -> None:
    body = "<a>é 🚀</a>".encode().replace("🚀".encode(), b"\xed\xa0\xbd\xed\xba\x80")
    assert decode(body)[0] == "<a>é 🚀</a>"


def test_declarations_are_found_only_at_the_front() -> None:
    assert find_declared_charset(b" " * 5000 + b'<?xml version="1.0" encoding="koi8-r"?>') is None
    assert (
        find_declared_charset(b"<meta http-equiv=content-type content='text/html; charset=koi8-r'>")
        == "koi8-r"
    )


def test_utf8_comes_out_without_a_mark() -> None:
    assert to_utf8(codecs.BOM_UTF8 + b"<a/>") == (b"<a/>", "utf-8")
    assert to_utf8("<a>é</a>".encode("utf-16"))[0] == "<a>é</a>".encode()


@pytest.mark.parametrize("charset", ["iso2022_jp", "hz"])
def test_X07_charsets_of_ascii_bytes_are_read_too(charset: str) -> None:
    label = charset.replace("iso2022_jp", "iso-2022-jp")
    body = f'<?xml version="1.0" encoding="{label}"?><rss>中文</rss>'.encode(charset)
    assert body.isascii()
    assert to_utf8(body)[0].decode() == decode(body)[0] == body.decode(charset)


@pytest.mark.parametrize("text", ["a ~{ b", "function ~{ 1; }", "\x1b[0m"])
def test_X07_escapes_alone_make_no_charset(text: str) -> None:
    assert to_utf8(f"<rss>{text}</rss>".encode())[0].decode() == f"<rss>{text}</rss>"
