"""Hidden content: what a page hides from its readers stays hidden, and doesn't come to light as text.

The sanitizer marks such elements while it drops their styles; :func:`remove_hidden` removes them from its
output, where each element has its end tag.
"""

from __future__ import annotations

import re

#: Attributes that may hide an element. They are only read if :func:`is_needed`.
NAMES = frozenset(["hidden", "style", "aria-hidden"])
#: Most characters of markup that only screen readers skip. More is probably the whole page behind a dialog.
MAX_DECORATION = 1000

_SIGNS = re.compile(
    r"\shidden(?=[\s=>/])|aria-hidden|display\s*+:\s*+none|visibility\s*+:\s*+(?:hidden|collapse)|mso-hide\s*+:\s*+all",
    re.IGNORECASE,
)
_NOT_SHOWN = re.compile(r"(?:^|[;\s])(?:display\s*+:\s*+none|mso-hide\s*+:\s*+all)", re.IGNORECASE)
_INVISIBLE = re.compile(r"(?:^|[;\s])visibility\s*+:\s*+(?:hidden|collapse)", re.IGNORECASE)
_TAG = re.compile(r"<(/?)([a-z0-9-]+)((?: [^<>]*)?)>")
_MARK = re.compile(r' (?:hidden|style|aria-hidden)="([a-z]*)"')
_VOID = frozenset(["br", "col", "hr", "img", "source", "wbr"])
#: Pictures of these attributes wait for a script, which also shows them.
_LAZY = " data-"
#: KaTeX hides its visual copy from screen readers even where it is the only one.
_ONLY_COPY = re.compile(r'(class="katex-html") aria-hidden="true"')


def is_needed(markup: str) -> bool:
    """Return whether published HTML may hide anything."""
    return ("hid" in markup or "none" in markup or "NONE" in markup) and _SIGNS.search(markup) is not None


def show_only_copies(markup: str) -> str:
    """Return published HTML with formulas that exist only as visual pieces not hidden."""
    return _ONLY_COPY.sub(r"\1", markup)


def judge(tag: str, name: str, value: str) -> str | None:
    """Return the mark of an attribute that hides its element, else None."""
    if name == "hidden":
        return None if value.lower() == "until-found" else "yes"
    if name == "aria-hidden":
        return "aside" if value.strip().lower() == "true" and tag != "img" else None
    if _NOT_SHOWN.search(value) or (tag != "img" and _INVISIBLE.search(value)):
        return "yes"
    return None


def remove_hidden(markup: str) -> str:
    """Return sanitized HTML without marked elements and marks.

    Elements that are hidden only from screen readers stay if they contain pictures or much text.
    """
    kept: list[str] = []
    open_at: list[tuple[int, str, int, int]] = []  # depth, mark, parts kept before, start of the content
    depth = at = 0
    pictures = -1  # depth up to which a picture was seen
    for tag in _TAG.finditer(markup):
        ends, name, given = tag[1], tag[2], tag[3]
        if ends:
            depth -= 1
            if open_at and open_at[-1][0] == depth:
                _, mark, before, begin = open_at.pop()
                kept.append(markup[at : tag.start()])
                shown = mark == "aside" and (pictures > depth or tag.start() - begin > MAX_DECORATION)
                if shown:
                    kept.append(tag[0])
                else:
                    del kept[before:]
                at = tag.end()
            pictures = min(pictures, depth)
            continue
        marks = _MARK.findall(given) if given else []
        is_void = name in _VOID
        if name == "img" and "yes" not in marks:
            pictures = depth
        if marks:
            kept.append(markup[at : tag.start()])
            at = tag.end()
            plain = f"<{name}{_MARK.sub('', given)}>"
            if is_void:
                if "yes" not in marks or _LAZY in given:
                    kept.append(plain)
            else:
                mark = "yes" if "yes" in marks else "aside"
                open_at.append((depth, mark, len(kept), tag.end()))
                kept.append(plain)
        if not is_void:
            depth += 1
    return "".join(kept) + markup[at:]
