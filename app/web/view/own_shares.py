"""What a row of your own shares says of it: its audience, re-shares, likes and comments."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from html import escape

from flask_babel import gettext as _
from flask_babel import ngettext

from app.models.discussion.comments import ShareReactions
from app.models.sharing.pages import ShareCount
from app.models.sharing.sharing import Audience, Share
from app.web.view.sprite import render_icon


@dataclasses.dataclass(frozen=True, slots=True)
class ShareState:
    """One of the user's shares, and what came of it."""

    share: Share
    reactions: ShareReactions
    reshares: ShareCount = ShareCount()


def render_audience(audience: Audience) -> str:
    """Return the audience of a share with its icon as HTML; "" for a public one, as most are."""
    if audience is Audience.FOLLOWERS:
        icon, name, tip = render_icon("users"), _("Followers"), _("Followers only")
    elif audience is Audience.PRIVATE:
        icon, name, tip = render_icon("lock"), _("Only you"), _("Only you")
    else:
        return ""
    return f'<bdi class="seen-by" title="{escape(tip)}">{icon}<span>{escape(name)}</span></bdi>'


def render_reactions(state: ShareState) -> str:
    """Return the numbers of a share's re-shares, likes and comments as HTML; "": there are none yet."""
    shares, likes, comments = state.reshares, state.reactions.likes, state.reactions.comments
    texts = (
        (shares, "share", ngettext("%(num)s re-share", "%(num)s re-shares", shares.number)),
        (likes, "heart", ngettext("%(num)s like", "%(num)s likes", likes.number)),
        (comments, "comment", ngettext("%(num)s comment", "%(num)s comments", comments.number)),
    )
    return render_counts((count.number, icon, text + "+" * count.more) for count, icon, text in texts)


def render_counts(counts: Iterable[tuple[int, str, str]]) -> str:
    """Return numbers with their icons as HTML, without those that are 0: (number, icon, text with it)."""
    return " ".join(
        f"<bdi>{render_icon(icon)}{escape(text)}</bdi>" for number, icon, text in counts if number > 0
    )
