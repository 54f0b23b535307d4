"""Parts of regular expressions that read text from strangers."""

from __future__ import annotations


def build_possessive(expression: str, times: str = "*") -> str:
    """Return an expression that reads ``expression`` so many times and never goes back.

    Before CPython 3.11.5 (Debian 12 has 3.11.2) such a repetition ends behind what its last turn read in vain
    (gh-106052). An alternative that always fails is tried last and sets it back to where that turn began.
    Nothing inside may be a group that is looked at afterwards (gh-101955).

    Args:
        times: a quantifier: ``*``, ``+``, ``?`` or ``{m,n}``.
    """
    return rf"(?:{expression}|(?!)){times}+"
