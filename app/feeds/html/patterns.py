"""Building blocks of regular expressions for untrusted text."""

from __future__ import annotations


def build_possessive(expression: str, times: str = "*") -> str:
    """Return an expression that repeats ``expression`` possessively: it never backtracks.

    Before CPython 3.11.5 (Debian 12 has 3.11.2), such a repetition ends after the text that its failed last
    turn consumed (gh-106052). An alternative that always fails resets it to where that turn began.
    ``expression`` must not contain a group that is read afterwards (gh-101955).

    Args:
        expression: the regular expression to repeat.
        times: a quantifier: ``*``, ``+``, ``?`` or ``{m,n}``.
    """
    return rf"(?:{expression}|(?!)){times}+"
