"""The language of an entry, for the search: the script decides, then frequent words, then the feed.

Many feeds claim to be in English because their software says so by default. So frequent words of the text
count more than the feed's own statement, and that statement decides only where the text doesn't.
"""

from __future__ import annotations

import re
from collections.abc import Collection

#: Frequent words that few other languages share, by language; enough to recognise a paragraph.
_FREQUENT: dict[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in {
        "ca": "amb els les pel dels perquè també aquest aquesta són això però seva està què",
        "cs": "že jako který jsou byl bylo také ale není jeho která proto nebo této podle",
        "da": "og ikke det af til på med efter hvor også fra bliver været deres jeg",
        "de": "der die das und nicht ist mit den von auf für dem eine ein auch sich werden",
        "en": "the and of to is that with this are was it on by from have",
        "es": "el los las que del por con una para como pero más está también sus",
        "et": "ja ei oma kui ka mis aga seda veel siis oli kuid ning tema selle",
        "fi": "ja on ei että oli hän mutta kun mitä myös ovat siitä tämä joka vain",
        "fr": "le les des est dans une pour qui pas sur avec plus sont cette aux",
        "hu": "az és hogy nem egy is meg már ez csak volt mint még de vagy",
        "id": "yang dan di dengan untuk pada tidak dari dalam ini akan adalah juga karena itu",
        "it": "il che di della per non sono con una del anche più gli alla come",
        "lt": "ir kad yra buvo bet kaip tik jau dėl taip arba nuo apie savo iki",
        "nl": "het een van en dat niet zijn voor met aan ook naar wordt maar werd",
        "no": "og ikke det av til på med etter hvor også fra blir være jeg som",
        "pl": "nie się jest na że jak ale czy był oraz jego przez tylko może są",
        "pt": "os que não uma com para por mais dos como mas foi ao ele são",
        "ro": "și este care nu din pentru cu sunt mai fost această prin dar sau lui",
        "sv": "och inte det att som på för med av till också från blir har jag",
        "tr": "ve bir bu için ile olarak daha çok gibi olan değil ama kadar sonra ne",
    }.items()
}
#: Frequent word → the languages that have it.
_LANGUAGES_OF: dict[str, tuple[str, ...]] = {
    word: tuple(language for language, words in _FREQUENT.items() if word in words)
    for word in frozenset[str]().union(*_FREQUENT.values())
}
_ALL_FREQUENT = frozenset(_LANGUAGES_OF)
#: Words of the text that must be frequent ones of a language, and their lead over the next language.
_ENOUGH, _LEAD = 3, 1.3
#: Characters of a text that are read to find its script.
BEGINNING = 500
_SCRIPTS: dict[str, re.Pattern[str]] = {
    "cyrillic": re.compile("[\u0400-\u052f]"),
    "arabic": re.compile("[\u0620-\u06ff]"),
    "greek": re.compile("[\u0370-\u03ff]"),
    "armenian": re.compile("[\u0530-\u058f]"),
    "devanagari": re.compile("[\u0900-\u097f]"),
    "tamil": re.compile("[\u0b80-\u0bff]"),
    "hebrew": re.compile("[\u05d0-\u05ea]"),
    "latin": re.compile("[A-Za-z\u00c0-\u024f]"),
}
#: The languages of a script other than Latin, the most frequent one first.
LANGUAGES: dict[str, tuple[str, ...]] = {
    "cyrillic": ("ru", "sr"),
    "arabic": ("ar", "fa"),
    "greek": ("el",),
    "armenian": ("hy",),
    "devanagari": ("hi", "ne"),
    "tamil": ("ta",),
    "hebrew": ("yi",),
    "latin": (*_FREQUENT, "eo", "eu", "ga"),
}
#: Languages that are written in these scripts but have other word forms.
_OTHERS: dict[str, frozenset[str]] = {
    "cyrillic": frozenset(("uk", "be", "bg", "mk", "kk", "mn", "tg", "ky")),
    "arabic": frozenset(("ur", "ps", "ckb", "ug", "sd")),
    "hebrew": frozenset(("he", "iw")),
}


def find_script(text: str) -> str:
    """Return the script of most letters, a key of :data:`LANGUAGES`; empty: another script."""
    if text.isascii():
        return "latin" if _SCRIPTS["latin"].search(text) else ""
    counts = {name: len(letters.findall(text)) for name, letters in _SCRIPTS.items()}
    best = max(counts, key=lambda name: counts[name])
    return best if counts[best] else ""


def guess_language(text: str, words: Collection[str], stated: str = "") -> str:
    """Return the language of a text as two letters; empty: unknown, or without known word forms.

    Args:
        text: the text.
        words: its different words in lower case.
        stated: the language that the feed names.
    """
    script, stated = find_script(text[:BEGINNING]), stated.lower()[:3].partition("-")[0].partition("_")[0]
    stated = {"nb": "no", "nn": "no"}.get(stated, stated)
    if not script:
        return ""
    known = LANGUAGES[script]
    if script == "latin":
        return _count_frequent(words) or (stated if stated in known else "")
    if stated in _OTHERS.get(script, ()):
        return ""
    return stated if stated in known else "" if script == "hebrew" else known[0]


def _count_frequent(words: Collection[str]) -> str:
    counts = dict.fromkeys(_FREQUENT, 0)
    for word in _ALL_FREQUENT.intersection(words):
        for language in _LANGUAGES_OF[word]:
            counts[language] += 1
    (most, best), (next_most, _) = sorted(((n, name) for name, n in counts.items()), reverse=True)[:2]
    return best if most >= _ENOUGH and most >= _LEAD * next_most else ""
