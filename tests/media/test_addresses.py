from __future__ import annotations

import pytest

from app.models.media.addresses import MediaKeys, SignedPicture, decode_bytes, encode_bytes, parse_id

PICTURE = SignedPicture("https://pictures.example/a.jpg?x=1", "https://site.example/post")
KEYS = MediaKeys.create("", "pK3v9sXq7Lw2Zr8Tn5Yb1Hd6Jf4Gm0Ca")


def parts(keys: MediaKeys, picture: SignedPicture = PICTURE) -> tuple[str, str]:
    path = keys.sign(picture)
    assert path is not None
    assert path.startswith("/i/u/")
    signature, data = path.removeprefix("/i/u/").split("/")
    return signature, data


def test_a_signed_address_names_the_picture() -> None:
    assert KEYS.verify(*parts(KEYS)) == PICTURE
    bare = PICTURE._replace(page=None)
    assert KEYS.verify(*parts(KEYS, bare)) == bare


def test_H12_any_flipped_bit_makes_a_signature_worthless() -> None:
    signature, data = parts(KEYS)
    raw, text = decode_bytes(signature), decode_bytes(data)
    assert raw is not None
    assert text is not None
    for place in range(8 * len(raw)):
        assert KEYS.verify(encode_bytes(_flip(raw, place)), data) is None
    for place in range(8 * len(text)):
        assert KEYS.verify(signature, encode_bytes(_flip(text, place))) is None


def _flip(value: bytes, place: int) -> bytes:
    changed = bytearray(value)
    changed[place // 8] ^= 1 << place % 8
    return bytes(changed)


@pytest.mark.parametrize("signature", ["", "A", "====", "é" * 22, "A" * 22, "A" * 5000])
def test_what_is_no_signature_is_refused(signature: str) -> None:
    assert KEYS.verify(signature, parts(KEYS)[1]) is None


def test_a_signature_has_one_spelling() -> None:
    signature, data = parts(KEYS)
    assert KEYS.verify(f"{signature}==", data) is None
    assert KEYS.verify(signature, f"{data}=") is None


def test_the_id_of_a_source_is_no_signature() -> None:
    data = parts(KEYS)[1]
    assert KEYS.verify(encode_bytes(KEYS.derive_id(PICTURE.url)), data) is None


def test_former_keys_stay_valid_for_reading() -> None:
    former, new = "f" * 16 + "ormerkeyofthisserver", "newkey" * 6
    old = MediaKeys.create(former, "")
    both = MediaKeys.create(f"{new} {former}", "")
    assert both.verify(*parts(old)) == PICTURE
    assert parts(both) != parts(old)
    assert MediaKeys.create(new, "").verify(*parts(old)) is None


def test_ids_depend_on_the_key() -> None:
    other = MediaKeys.create("", "another secret key of thirty-two characters")
    assert KEYS.derive_id(PICTURE.url) != other.derive_id(PICTURE.url)
    assert parse_id(encode_bytes(KEYS.derive_id(PICTURE.url))) == KEYS.derive_id(PICTURE.url)


@pytest.mark.parametrize("text", ["", "A" * 21, "A" * 23, "A" * 21 + "B", "é" * 22, "../../../../etc/passwd"])
def test_what_is_no_id_is_refused(text: str) -> None:
    assert parse_id(text) is None


def test_a_picture_with_a_very_long_address_is_not_signed() -> None:
    assert KEYS.sign(PICTURE._replace(url="https://pictures.example/" + "a" * 4000)) is None
