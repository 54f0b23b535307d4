"""The line that each of your own shares has in their list: its audience, likes and comments."""

from __future__ import annotations

from flask_babel import gettext as _
from flask_babel import ngettext

from app.models.discussion.comments import CappedCount, ShareReactions
from app.models.sharing.sharing import Audience, Share


def format_share_state(share: Share, reactions: ShareReactions) -> str:
    """Return a share's audience, and the numbers of its likes and comments if there are any."""
    names = {
        Audience.PUBLIC: _("Everyone"),
        Audience.FOLLOWERS: _("Followers only"),
        Audience.PRIVATE: _("Only you"),
    }
    likes, comments = reactions.likes, reactions.comments
    parts = [names[share.audience]]
    if likes.number:
        parts.append(ngettext("%(num)s like", "%(num)s likes", likes.number) + _sign_more(likes))
    if comments.number:
        parts.append(ngettext("%(num)s comment", "%(num)s comments", comments.number) + _sign_more(comments))
    return "\N{NO-BREAK SPACE}· ".join(parts)


def _sign_more(count: CappedCount) -> str:
    return "+" if count.more else ""
