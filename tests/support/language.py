"""The patterns of English that Eventr avoids, and the length of its sentences.

Documents, UI strings and docstrings are checked with the same table. Each pattern carries a sentence
that it must catch and one that it must pass (tests/test_language.py checks both).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence

#: The longest sentence of the UI, in words.
MAX_WORDS = 35


@dataclasses.dataclass(frozen=True, slots=True)
class Pattern:
    """A turn of phrase to avoid, the reason, and an example on either side of it."""

    name: str
    regex: re.Pattern[str]
    why: str
    caught: str
    passes: str


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """A place where a text uses a pattern, or a sentence that is too long."""

    line: int
    name: str
    text: str
    why: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.name}: “{self.text}” ({self.why})"


def _pattern(name: str, regex: str, why: str, caught: str, passes: str) -> Pattern:
    return Pattern(name, re.compile(regex, re.IGNORECASE), why, caught, passes)


#: The start of a sentence, a list item or a table cell; or the place after a colon or semicolon.
_START = r"(?:^|(?<=[.!?:;] )|(?<=^- )|(?<=^\* ))"

PATTERNS: Sequence[Pattern] = (
    _pattern(
        "is no <noun>",
        r"(?<!\bthere )\b(?:is|are|was|were|be|been) no "
        r"(?!(?:longer|more than|less than|fewer|matter|one|better|worse|different)\b)\w+",
        "write “isn't a …” or “not a …”",
        "This is no OPML file but a ZIP archive.",
        "There is no folder with this name, and the feed is no longer checked.",
    ),
    _pattern(
        "he, his, him",
        r"\b(?:he|his|him|himself|she|her|hers|herself)\b",
        "people are “you”, “they” or “someone”",
        "This is a person of this server. Follow him by his name.",
        "This person is on this server. Follow them by user name.",
    ),
    _pattern(
        "whoever",
        r"\bwho(?:m|so)?ever\b",
        "name the person: “the user who …”, “anyone who …”",
        "Whoever shares an entry pays one write.",
        "Anyone with the link can read the page.",
    ),
    _pattern(
        "that is the most",
        r"\bthat is (?:the )?most\b",
        "name the thing that is most",
        "Unchanged: that is most of all polls.",
        "Most polls find the feed unchanged.",
    ),
    _pattern(
        "somebody, anybody, everybody",
        r"\b(?:some|any|every)body\b",
        "write “someone”, “anyone”, “everyone”",
        "You approve it each time before somebody follows you.",
        "You approve it each time someone asks to follow you.",
    ),
    _pattern(
        "one as a person",
        r"\bone['’]s\b|\boneself\b|\b(?:what|where|when|whom|if|as) one (?:may|can|must|has|\w{3,}s)\b"
        r"|\bthat one (?:may|can|must|reads|sees|follows|writes)\b",
        "write “you” or name the person",
        "A comment of one's own can be deleted.",
        "Each comment has a date. Add an index where one is needed; that one stays.",
    ),
    _pattern(
        "who as a subject",
        _START + r"(?:only )?who(?:m)? [^?\n.!]*[.!](?=\s|$)",
        "name the person: “Someone who …”, “Your followers …”",
        "Only who follows you.",
        "Only your followers can see it. Who may see it? The people who follow you.",
    ),
    _pattern(
        "what as a subject",
        _START + r"what(?:ever)? (?:is|was|are|were|has|had|it|one|they|someone|only|comes|came)\b"
        r"[^?\n.!]*[.!](?=\s|$)",
        "name the thing",
        "What is read stays where it was.",
        "Read entries stay where they were. What is a feed? A list of entries.",
    ),
    _pattern(
        "that one, the one as a subject",
        _START
        + r"(?:th(?:at|is) one|the ones?|the others?) (?:of|is|are|was|who|that|has|have|comes?|goes)\b",
        "name the thing",
        "The one of this account: asked for because what is made opens it.",
        "Confirm your account password, the one that you use to log in.",
    ),
    _pattern(
        "by itself",
        r"\bby (?:itself|themselves)\b",
        "write “automatically” or “on its own”",
        "It is not tried again by itself.",
        "Eventr won't retry this automatically.",
    ),
    _pattern(
        "a feed is asked",
        r"\b(?:feeds?|hosts?|sites?|hubs?|it|they|which) (?:(?:is|are|was|were) )?(?:not |never )?asked\b"
        r"(?! to\b)",
        "feeds are checked, fetched or polled",
        "Nothing to do: it is asked more slowly.",
        "Eventr is already checking this feed less often. You are asked to confirm.",
    ),
    _pattern(
        "take back",
        r"\b(?:take|takes|taken|took|taking) (?:(?:it|them|this|that|one|a \w+|the \w+) )?back\b",
        "write “undo”, “unshare”, “delete” or “restore”",
        "Yes, delete it: it cannot be taken back.",
        "Yes, delete it. This can't be undone.",
    ),
    _pattern(
        "is told",
        r"\b(?:is|are|was|were|be|been) told\b|\b(?:tells?|telling) of\b",
        "write “is notified”, “reports”, “shows”",
        "Subscribers are told at once.",
        "Subscribers are notified at once. This table tells you why.",
    ),
    _pattern(
        "for good, by now, any more",
        r"\b(?:(?<!gone )for good|by now|any more)\b",
        "write “permanently”, “now”, “anymore”",
        "Nothing was done: another entry is chosen by now.",
        "The site is gone for good. Another entry is selected now.",
    ),
    _pattern(
        "also where",
        r"\balso (?:where|when|if)\b",
        "write “even where”, “even when”, “even if”",
        "It works also where JavaScript is off.",
        "It works even where JavaScript is off.",
    ),
    _pattern(
        "anyhow, and the like",
        r"\b(?:anyhow|and the like)\b",
        "be specific",
        "Links, pictures and the like are kept.",
        "Links, pictures and tables are kept.",
    ),
    _pattern(
        "however many",
        r"\bby however\b|\bfor whom\b|\bof whose\b",
        "say it in two sentences",
        "It costs the same, shared by however many.",
        "It costs the same, however many people share it.",
    ),
    _pattern(
        "invitation, sign in",
        r"\b(?:invitations?|sign(?:ed|s|ing)?[ -]in)\b",
        "the words are “invite” and “log in”",
        "Sign in with your invitation.",
        "Log in, or sign up with your invite.",
    ),
)

_FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_CODE = re.compile(r"``[^`]+``|`[^`\n]+(?:\n[^`\n]+)?`")
_LINK = re.compile(r"(!?)\[([^\]]*)\]\([^)\s]*\)")
_URL = re.compile(r"\bhttps?://\S+")
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+")
_END = re.compile(r"(?<=[.!?…])[\"”’)*_]*\s+(?=[\"“‘(*_]*[A-Z0-9`•])")
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|etc|vs|Mr|St|No)\.")
_WORD = re.compile(r"[^\W_][\w’'.,/+-]*")


def _blank(match: re.Match[str]) -> str:
    return "\n" * match.group().count("\n")


def _code_sign(match: re.Match[str]) -> str:
    return "•" + "\n" * match.group().count("\n")


def paragraphs(markdown: str) -> Iterator[tuple[int, str]]:
    """Yield the prose of a Markdown document with its line numbers: one item, cell or paragraph at a time.

    Code, addresses and comments are left out; a piece of inline code counts as one word (•).
    """
    text = _COMMENT.sub(_blank, _FENCE.sub(_blank, markdown))
    text = _URL.sub("•", _LINK.sub(r"\2", _CODE.sub(_code_sign, text)))
    start, held = 1, list[str]()
    for number, line in enumerate([*text.splitlines(), ""], 1):
        item = _ITEM.match(line)
        alone = line.lstrip().startswith(("|", "#", ">"))
        if held and (not line.strip() or item or alone):
            yield start, " ".join(held)
            held = []
        if alone:
            for cell in line.strip(" #>").strip("|").split("|"):
                if _WORD.search(cell):
                    yield number, cell.strip()
        elif line.strip():
            start = start if held else number
            held.append(line[item.end() :].strip() if item else line.strip())


def sentences(text: str) -> list[str]:
    """Split a paragraph into its sentences."""
    return [part for part in _END.split(_ABBREVIATION.sub(r"\1", text)) if part.strip()]


def count_words(sentence: str) -> int:
    """Count the words of a sentence; a placeholder or a piece of code is one word, a dash is none."""
    return sum(1 for word in sentence.split() if _WORD.search(word) or "•" in word)


def find_faults(text: str, *, line: int = 1, max_words: int | None = None) -> list[Fault]:
    """Return every pattern that a string uses and, if `max_words` is given, its longer sentences."""
    faults = [
        Fault(line + text.count("\n", 0, found.start()), pattern.name, found.group().strip(), pattern.why)
        for pattern in PATTERNS
        for found in pattern.regex.finditer(text)
    ]
    if max_words is not None:
        faults += [
            Fault(
                line,
                "long sentence",
                f"{sentence[:60]}…",
                f"{count_words(sentence)} words, {max_words} at most",
            )
            for sentence in sentences(text)
            if count_words(sentence) > max_words
        ]
    return faults


def find_document_faults(markdown: str, *, max_words: int | None = None) -> list[Fault]:
    """Return the faults of a Markdown document, paragraph by paragraph."""
    return [
        fault
        for number, text in paragraphs(markdown)
        for fault in find_faults(text, line=number, max_words=max_words)
    ]
