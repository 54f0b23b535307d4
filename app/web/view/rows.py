"""Rows of a list as HTML, built by string concatenation.

A template makes an object of each of the thousand values in fifty rows: 3 ms of CPU; this takes 1 ms.
Every value that people or feeds wrote goes through ``escape``; ids are numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from flask_babel import gettext as _
from flask_babel import ngettext
from markupsafe import Markup

from app.models.reading.notes import NotePreview
from app.models.reading.rules import Rule
from app.models.reading.search import find_language
from app.models.reading.stream import EntryRow, Page
from app.models.sharing.sharing import Sharer
from app.models.sharing.typed_text import remove_signs
from app.web.view import i18n
from app.web.view.faces import render_face
from app.web.view.heading import format_author
from app.web.view.highlight import highlight_source, highlight_terms
from app.web.view.own_shares import ShareState, render_audience, render_counts, render_reactions
from app.web.view.pictures import render_thumb
from app.web.view.present import format_ago, format_iso, format_moment, keep_http_url
from app.web.view.sprite import render_icon
from app.web.view.tree import render_tile

#: Characters of an excerpt: in narrow rows, and in wide ones.
SHORT, LONG = 120, 240
#: Characters of a text that stands for a missing title.
TITLE = 280
#: Characters of an age that takes little room in a line; a date has more.
AGO = 6
#: What a feed puts at the end of a title that it has cut from the text.
_CUTS = ("…", "...", "[…]", "[...]")
#: Sharers of a row that are named, and of those shown as tiles.
NAMED, FACES = 3, 4


class RowRenderer:
    """Renders the rows of one page.

    Args:
        here: address of the list, to which each row adds its entry.
        stars: the star button by its state, with ``{id}`` in place of the entry's id.
        open_id: the entry that is open beside the list.
        whole: the rows show full texts, which the template adds.
        divided: the heading "Already read" comes before the row at ``page.split``.
        own: the list is that of one feed, whose name its rows don't repeat.
        own_tag: the list is that of this tag, which its rows don't repeat.
        led: the first row has a large picture.
        shares: what rows of the user's own shares say of them, by id.
        highlighters: the rules that have highlighted entries, by id; others are gone. None: not looked up.
    """

    def __init__(
        self,
        page: Page,
        *,
        here: str,
        stars: Mapping[bool, str],
        open_id: int | None,
        density: str,
        view: str,
        divided: bool,
        own: bool = False,
        own_tag: int | None = None,
        led: bool = False,
        shares: Mapping[int, ShareState] | None = None,
        highlighters: Mapping[int, Rule] | None = None,
    ) -> None:
        self._page, self._stars, self._open_id = page, stars, open_id
        self._link = escape(here + ("&" if "?" in here else "?") + "entry=")
        self._whole, self._own, self._own_tag = view == "expanded", own, own_tag
        self._shares = shares or {}
        self._thumbs = has_thumbs(density, view)
        self._length = LONG if density == "card" or view == "list" else SHORT
        self._split = page.split if divided else None
        self._lead = page.rows[0] if led else None
        self._large = density == "card" and view == "list"
        self._unread, self._untitled = escape(_("Unread: ")), _("(no title)")
        self._highlighters = highlighters
        self._highlighted, self._by_rule = escape(_("Highlighted: ")), _("Highlighted by a rule")

    def render(self) -> Markup:
        """Return all rows, without full texts."""
        end = "</div></article></li>\n"
        rows = (f"{head}{self.get_star(row)}{end}" for row, head in self._iter_heads())
        return Markup("".join(rows))  # noqa: S704 — built from escaped parts only

    def iter_heads(self) -> Iterator[tuple[EntryRow, Markup]]:
        """Yield each row with its beginning, up to its age; the caller closes a ``div`` and the row."""
        for row, head in self._iter_heads():
            yield row, Markup(head)  # noqa: S704 — built from escaped parts only

    def get_star(self, row: EntryRow) -> Markup:
        """Return a row's star button."""
        html = self._stars[row.starred].replace("{id}", str(row.id))
        return Markup(html)  # noqa: S704 — the macro's HTML and a number

    def _iter_heads(self) -> Iterator[tuple[EntryRow, str]]:
        if self._page.pinned:
            yield self._page.pinned, _heading("pin", _("Opened entry")) + self._head(self._page.pinned)
        for place, row in enumerate(self._page.rows):
            yield row, self._above(place) + self._head(row)

    def _above(self, place: int) -> str:
        """Return the heading of the rows that begin here, if any do."""
        if place == self._split:
            return _heading("divider", _("Already read"))
        return _heading("pin", _("Start of the list")) if place == 0 and self._page.pinned else ""

    def _head(self, row: EntryRow) -> str:
        ident, read = row.id, row.read
        feed = f' data-feed="{row.feed_id}"' if row.markable else ""
        is_lead = self._large or row is self._lead
        thumb = render_thumb(row.image, large=is_lead) if self._thumbs else ""
        title, text = self._split_text(row)
        state = "" if read else self._unread
        # In the list of notes, what is highlighted are the passages.
        is_lit = row.highlighted and not row.noted
        lit = f'<bdi class="vh">{self._highlighted}</bdi>' if is_lit else ""
        classes = f"row{' is-read' if read else ''}{'' if title else ' untitled'}"
        classes += " lit" if is_lit else ""
        classes += " lead" if is_lead and thumb else ""
        return (
            f'<li><article class="{classes}" data-id="{ident}"{feed} aria-labelledby="t{ident}"'
            f"{_CURRENT if ident == self._open_id else ''}>{thumb}"
            f'<div><h2 id="t{ident}" dir="auto"{i18n.render_lang(row.language)}>'
            f"{self._open_link(row)}"
            f'<bdi class="vh state">{state}</bdi>{lit}{self._title(row, title, text)}</a></h2>\n'
            f"{self._line(row, text if title else '')}{self._gist(row, title, text)}</div>\n"
            f'<div class="end">{self._lit(row) if is_lit else ""}{self._time(row)}\n'
        )

    def _lit(self, row: EntryRow) -> str:
        """Return the sign of a highlighted row, which names the rule."""
        said = escape(self._say_why(row))
        icon = render_icon("marker")
        return f'<span class="why" role="img" title="{said}" aria-label="{said}">{icon}</span>'

    def _say_why(self, row: EntryRow) -> str:
        said: str = self._by_rule
        if self._highlighters is not None and row.highlighter:
            rule = self._highlighters.get(row.highlighter)
            if rule is None:
                said = _("Highlighted by a rule that you have deleted")
            elif rule.name:
                said = _("Highlighted by “%(rule)s”", rule=rule.name)
        return said

    def _time(self, row: EntryRow) -> str:
        """Return an entry's age, or when it was read or noted; as a link if the title leads to the site."""
        at = row.noted.at if row.noted else row.read_at or row.at
        moment = format_moment(at)
        if row.noted:
            moment = _("Noted: %(when)s", when=moment)
        elif row.read_at:
            moment = _("Read: %(when)s", when=moment)
        ago = format_ago(at)
        size = ' class="day"' if len(ago) > AGO else ""
        when = f'<time datetime="{format_iso(at)}" title="{escape(moment)}"{size}>{escape(ago)}</time>'
        if row.original and keep_http_url(row.url):
            return f'<a class="in" href="{self._link}{row.id}">{when}</a>'
        return when

    def _open_link(self, row: EntryRow) -> str:
        """Return the start tag of a title's link: to the entry, or to its page at the site."""
        if row.original and (url := keep_http_url(row.url)):
            return f'<a class="out" href="{escape(url)}" target="_blank" rel="noopener noreferrer">'
        return f'<a href="{self._link}{row.id}">'

    def _split_text(self, row: EntryRow) -> tuple[str, str]:
        """Return a row's title, and its text without the title if it begins with that.

        Without a title, the text says all. Passages that a search has found stay as they are.
        """
        if self._page.looked:
            return row.title, row.excerpt if row.title else ""
        return separate_title(row.title, row.excerpt)

    def _title(self, row: EntryRow, title: str, text: str) -> str:
        shown = title or truncate_text(text or row.excerpt, TITLE)
        shown = shown or i18n.describe_lost(row.lost) or self._untitled
        return self._mark(row, shown, "title")

    def _line(self, row: EntryRow, text: str) -> str:
        """Return the second line: the feed or the sharers, tags, and the beginning of the text."""
        # What others say of it isn't what the user noted.
        is_shared = row.sharers and not row.noted
        source, note = _shared(row) if is_shared else (self._source(row), "")
        if state := self._shares.get(row.id):
            return f"<p>{source}{render_audience(state.share.audience)}</p>"
        parts = [source]
        if not row.noted and (labels := self._labels(row)):
            parts.append(f" {labels}")
        if row.copies:
            parts.append(self._copies(row))
        parts.append(note)  # last, as it has lines of its own
        start = "".join(parts)
        if self._whole or row.noted or not text:
            return f"<p>{start}</p>" if start else ""
        text = self._mark(row, truncate_text(text, self._length))
        return f'<p dir="auto">{start}<span class="text">{text}</span></p>'

    def _labels(self, row: EntryRow) -> str:
        tags = (tag for tag in row.tags if tag.id != self._own_tag)
        labels = " ".join(f'<span class="tag" dir="auto">{escape(tag.name)}</span>' for tag in tags)
        return f'<span class="labels">{labels}</span>' if labels else ""

    def _gist(self, row: EntryRow, title: str, text: str) -> str:
        """Return what the lists of notes and of own shares are for, each part on lines of its own."""
        if row.noted:
            parts = [*_show_note(row.noted), self._labels(row)]
        elif state := self._shares.get(row.id):
            # Not that of a sharer: others that the user follows may have shared the same entry. The text of a
            # post without a title stands in place of that.
            note = state.share.note if title or not state.share.is_post else ""
            about = "" if note or self._whole or not title else truncate_text(text, LONG)
            parts = [
                _show_written(truncate_text(remove_signs(note), LONG)),
                _show_part("about", escape(about)),
                self._labels(row),
                _show_part("rest", render_reactions(state)),
            ]
        else:
            return ""
        return f'\n<div class="gist">{"".join(parts)}</div>' if any(parts) else ""

    def _copies(self, row: EntryRow) -> str:
        """Return how many copies the row stands for, and links to the first ones."""
        links = [
            f'<a href="{self._link}{one.entry_id}"><bdi>{escape(one.feed_title)}</bdi></a>'
            for one in row.copies[:NAMED]
        ]
        said = escape(_("also in %(feeds)s", feeds="\0")).replace("\0", ", ".join(links))
        more = f" +{len(row.copies) - NAMED}" if len(row.copies) > NAMED else ""
        return f'<bdi class="twins">{said}{more}</bdi>'

    def _source(self, row: EntryRow) -> str:
        """Return the feed of an entry with its icon; in the feed's own list, an author of another name."""
        if not self._own:
            named, author = highlight_source(row.feed_title, row.author, self._page.looked)
            feed = _name_feed(row.feed_id, row.feed_title, row.icon, shown=named)
            return f"{feed}\u00a0· <bdi>{author}</bdi>" if author else feed
        author = format_author(row.author, row.feed_title)
        if not author:
            return ""
        return f'<bdi class="{_class_source(author)}">{self._mark(row, author, "author")}</bdi>'

    def _mark(self, row: EntryRow, text: str, where: str = "") -> str:
        if not self._page.looked:
            return escape(text)
        language = find_language(row.title, row.excerpt, row.language)
        return _escape(highlight_terms(text, self._page.looked, where, language=language))


_CURRENT = ' aria-current="true"'


def _heading(name: str, words: str) -> str:
    return f'<li><h2 class="{name}">{escape(words)}</h2></li>\n'


def _escape(text: str) -> str:
    return str(text) if isinstance(text, Markup) else escape(text)


def _name_feed(
    key: int | str, title: str, icon: str | None, person: bool = False, *, shown: str | None = None
) -> str:
    """Return the icon and the name of a feed; ``shown``: its name with the terms of a search."""
    tile = render_tile(key, title, icon=icon, person=person)
    return f'{tile}<bdi class="{_class_source(title)}">{_escape(shown or title)}</bdi>'


def _class_source(name: str) -> str:
    return "src mix" if i18n.is_mixed(name) else "src"


def _show_part(name: str, html: str) -> str:
    return f'<div class="{name}" dir="auto">{html}</div>' if html else ""


def _show_written(text: str) -> str:
    """Return the person's own words, which a pencil tells from those of the entry; "": there are none."""
    if not text:
        return ""
    pencil = render_icon("note", _("Your note"))
    return f'<div class="written" dir="auto">{pencil}<span>{escape(text)}</span></div>'


def _show_note(note: NotePreview) -> list[str]:
    """Return the parts of a note: its first passage, the first own words, and how many more there are."""
    quotes, texts = note.quotes - 1, note.texts - 1
    more = (
        (quotes, "marker", ngettext("%(num)s more highlight", "%(num)s more highlights", quotes)),
        (texts, "note", ngettext("%(num)s more note", "%(num)s more notes", texts)),
    )
    quote = f"“{escape(note.quote)}”" if note.quote else ""
    return [
        _show_part(f"quoted hl-{note.color}", quote),
        _show_written(note.text),
        _show_part("rest", render_counts(more)),
    ]


def _shared(row: EntryRow) -> tuple[str, str]:
    """Return the people who shared an entry; and the first note that says more than its excerpt, or "".

    With a note, only its author is named. A share of the user's own names the feed it came from instead.
    """
    author = _find_author(row.sharers, row.excerpt)
    people = [author, *(one for one in row.sharers if one is not author)] if author else row.sharers
    faces = "".join(render_face(one) for one in people[:FACES])
    named = people[: 1 if author else NAMED]
    names = ", ".join(f"<bdi>{escape(one.name)}</bdi>" for one in named)
    more = f" +{len(people) - len(named)}" if len(people) > len(named) else ""
    note = truncate_text(remove_signs(author.note), LONG) if author else ""
    said = f'<span class="said"> “{escape(note)}”</span>' if note else ""
    if row.source:
        return _name_feed(*row.source), said
    return f'<bdi class="faces">{faces}</bdi><bdi class="src">{names}{more}</bdi>', said


def _find_author(sharers: Sequence[Sharer], excerpt: str) -> Sharer | None:
    """Return the first person with a note that says more than the excerpt."""
    return next((one for one in sharers if one.note and one.note != excerpt), None)


def truncate_text(text: str, length: int) -> str:
    """Return at most ``length`` characters, cut between words, like Jinja's filter without leeway."""
    return text if len(text) <= length else text[: length - 1].rsplit(" ", 1)[0] + "…"


def has_thumbs(density: str, view: str) -> bool:
    """Return whether rows show a small picture: not in single lines, nor beside whole texts."""
    return view != "expanded" and density != "compact"


def separate_title(title: str, text: str) -> tuple[str, str]:
    """Return the title and the text without a beginning that repeats the title.

    Many feeds give a post without a title the first words of its text as one: then the title is "".
    """
    beginning = title
    for cut in _CUTS:
        beginning = beginning.removesuffix(cut).rstrip()
    if not beginning or not text.startswith(beginning):
        return title, text
    rest = text[len(beginning) :]
    # Cut at any character; a whole title ends with a word.
    if beginning != title:
        return "", text
    if rest[:1].isalnum():
        return title, text
    return title, rest.lstrip(" \t.:;,–—-·|")
