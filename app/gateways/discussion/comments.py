"""Likes of shares, and comments as threads. Anyone who may see a share may read and write comments on it.

Counts are queried, not stored. So they can't drift, and they leave out people whom the viewer mutes or
blocks. Their limit keeps them cheap for very popular shares.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from app.errors import ConflictError, InvalidError, NotFoundError
from app.feeds.html import linkify
from app.gateways.media.attachments import AttachmentGateway
from app.gateways.sharing.visibility import VisibilityGateway
from app.mappers.discussion.comments import CommentMapper, get_position
from app.mappers.discussion.likes import LikeMapper
from app.mappers.discussion.reactions import ReactionMapper
from app.mappers.mongo import ids
from app.mappers.mongo.store import Session, Store
from app.mappers.notifications.notifications import NotificationMapper
from app.mappers.sharing.shares import ShareMapper
from app.models.discussion.comments import (
    MENTION,
    CappedCount,
    Comment,
    CommentedShare,
    CommentThread,
    CommentView,
    PersonSummary,
    ShareReactions,
    find_mentions,
)
from app.models.media.attachment import NewAttachment, name_comment
from app.models.sharing.sharing import Share

_CURSOR = re.compile(r"(?:[0-9a-f]{14})+", re.ASCII)
#: Attempts to store a comment whose id another comment gets at the same moment.
ROUNDS = 8
#: Most reads for one page, when many comments are by people whom the viewer mutes or blocks.
LOOKS = 10
#: Most names on a page that are looked up; further names stay plain text.
NAMES = 50
#: Comments or shares of a deleted account per batch.
TOGETHER = 200


class DiscussionGateway:
    """Stores and reads likes and comments.

    Args:
        depth: levels of answers.
        rows: comments per page.
        limit: the highest number that is counted.
    """

    def __init__(
        self,
        *,
        store: Store,
        shares: ShareMapper,
        likes: LikeMapper,
        comments: CommentMapper,
        reactions: ReactionMapper,
        notes: NotificationMapper,
        visibility: VisibilityGateway,
        attachments: AttachmentGateway,
        depth: int,
        rows: int,
        limit: int,
    ) -> None:
        self._attachments = attachments
        self._store, self._shares = store, shares
        self._likes, self._comments, self._reactions = likes, comments, reactions
        self._notes = notes
        self._sight = visibility
        self._depth, self._rows, self._most = depth, rows, limit

    def get_share(self, viewer: int | None, share_id: int, *, is_social: bool = False) -> Share:
        """Return a share that a viewer may see.

        Args:
            is_social: whether the viewer follows people, so that these subscriptions are read in one query.

        Raises:
            NotFoundError: there is no such share, it was unshared, or the viewer may not see it.
        """
        if viewer is not None and is_social:
            self._sight.prefetch_followed(viewer)
        share = self.find_share(viewer, share_id)
        if share is None:
            raise NotFoundError(share_id=share_id)
        return share

    def find_share(self, viewer: int | None, share_id: int) -> Share | None:
        """Return a share, or None if it doesn't exist or the viewer may not see it."""
        share = self._shares.find(share_id)
        return share if share and self._sight.can_see(viewer, share) else None

    def get_commented_share(self, viewer: int | None, share: Share) -> CommentedShare:
        """Return a share for the head of its comment thread.

        Raises:
            NotFoundError: the viewer may not see the share anymore.
        """
        by = self._sight.find_sharers(viewer, [share]).get(share.id)
        if by is None:
            raise NotFoundError(share_id=share.id)
        return CommentedShare(share, by, html=linkify.render_html(share.note))

    # -- likes
    def set_liked(self, user_id: int, share: Share, on: bool, now: dt.datetime) -> bool:
        """Like or unlike a share; return whether that changed anything."""
        return self._likes.add(user_id, share, now) if on else self._likes.remove(user_id, share.id)

    def unlike(self, user_id: int, share_id: int) -> bool:
        """Remove a user's like, even of a share they can't see anymore; return False if there is none."""
        return self._likes.remove(user_id, share_id)

    def list_likers(
        self, viewer: int, share: Share, after: str, limit: int
    ) -> tuple[list[PersonSummary], str | None]:
        """Return a page of the people who like a share, latest first, and the next cursor."""
        found = self._likes.list_likers(share.id, limit + 1, after)
        faces = self._sight.find_unmuted_people(viewer, [i for _, i in found])
        shown = [faces[i] for _, i in found[:limit] if i in faces]
        return shown, found[limit - 1][0] if len(found) > limit else None

    def count_reactions(self, viewer: int | None, shares: Sequence[Share]) -> dict[int, ShareReactions]:
        """Return the likes and comments of shares that the viewer may see, by share id."""
        most = self._most + 1
        ids = list({s.id: None for s in shares})
        found = self._reactions.find(ids, most, viewer)
        people = {i for some in (*found.likers.values(), *found.authors.values()) for i in some}
        heard = self._sight.find_unmuted_people(viewer, people) if people else {}
        return {
            s.id: ShareReactions(
                self._count(found.likers[s.id], heard),
                self._count(found.authors[s.id], heard),
                s.id in found.liked,
            )
            for s in shares
        }

    def _count(self, found: Sequence[int], heard: Mapping[int, PersonSummary]) -> CappedCount:
        number = sum(i in heard for i in found[: self._most])
        return CappedCount(number, len(found) > self._most)

    # -- comments
    def comment(
        self,
        user_id: int,
        share: Share,
        text: str,
        parent: int | None,
        now: dt.datetime,
        *,
        files: Sequence[NewAttachment] = (),
    ) -> tuple[Comment, Comment | None]:
        """Store a comment; return it with the comment that it answers, if any.

        Raises:
            NotFoundError: the answered comment is gone, or a file is.
        """
        described = self._attachments.describe(user_id, files)
        for _ in range(ROUNDS):
            new = Comment(
                id=ids.reserve_ids(),
                share_id=share.id,
                of=share.of.entry_id,
                user_id=user_id,
                at=now,
                path=(),
                parent=parent,
                text=text,
                files=described,
            )
            try:
                return self._store.run_in_transaction(partial(self._add, new))
            except ConflictError:
                continue
        raise ConflictError(share_id=share.id)

    def find_comment_by_text(
        self, user_id: int, share: Share, text: str, since: dt.datetime
    ) -> Comment | None:
        """Return a user's comment with this text on a share since a time, or None."""
        return self._comments.find_by_text(share.id, user_id, text, since)

    def _add(self, new: Comment, session: Session) -> tuple[Comment, Comment | None]:
        above = None
        if new.parent is not None:
            above = self._comments.mark_answered(new.share_id, new.parent, session)
            if above is None:
                raise NotFoundError("This comment doesn't exist anymore.", comment_id=new.parent)
        path = above.path[: self._depth - 1] if above else ()
        placed = dataclasses.replace(new, path=(*path, new.id))
        self._comments.add(placed, session)
        self._attach(placed, session)
        return placed, above

    def _attach(self, comment: Comment, session: Session) -> None:
        if comment.user_id is not None:
            owner = name_comment(comment.id)
            self._attachments.attach(session, comment.user_id, comment.files, owner)

    def get_comment(self, viewer: int, comment_id: int) -> tuple[Comment, Share]:
        """Return a comment on a share that the viewer may see.

        Raises:
            NotFoundError: there is no such comment, it was removed, or the viewer may not see the share.
        """
        found = self._comments.find(comment_id)
        share = self.find_share(viewer, found.share_id) if found and not found.removed else None
        if found is None or share is None:
            raise NotFoundError(comment_id=comment_id)
        return found, share

    def get_removable_comment(self, user_id: int, comment_id: int) -> tuple[Comment, bool]:
        """Return a comment that a user may remove (their own, or on their share), and whether they see the
        share.

        Users may remove their own comments even after being blocked, or after the audience became smaller.

        Raises:
            NotFoundError: there is no such comment, or the user may not remove it.
        """
        found = self._comments.find(comment_id)
        if found is None or found.removed:
            raise NotFoundError(comment_id=comment_id)
        share = self.find_share(user_id, found.share_id)
        if found.user_id != user_id and (share is None or share.user_id != user_id):
            raise NotFoundError(comment_id=comment_id)
        return found, share is not None

    def can_see_author(self, viewer: int, comment: Comment) -> bool:
        """Return whether a viewer sees comments of this comment's author."""
        return comment.user_id is not None and comment.user_id in self._sight.find_unmuted_people(
            viewer, [comment.user_id]
        )

    def update_comment(
        self,
        user_id: int,
        comment_id: int,
        text: str,
        now: dt.datetime,
        *,
        files: Sequence[NewAttachment] | None = None,
    ) -> Comment:
        """Change a user's own comment; without ``files``, its attachments stay.

        Raises:
            NotFoundError: the user has no such comment or file.
        """
        described = None if files is None else self._attachments.describe(user_id, files)

        def change_comment(session: Session) -> Comment:
            done = self._comments.update(comment_id, user_id, text, now, files=described, session=session)
            if done is None:
                raise NotFoundError(comment_id=comment_id)
            was, changed = done
            if was.files != changed.files:
                self._attachments.detach(session, was.files, name_comment(was.id))
                self._attach(changed, session)
            return changed

        return self._store.run_in_transaction(change_comment)

    def remove_comment(self, user_id: int, comment_id: int, expires: dt.datetime, now: dt.datetime) -> str:
        """Remove a comment; return a token for :meth:`restore_comment`, valid until ``expires``.

        Raises:
            NotFoundError: the comment is gone.
        """
        token = secrets.token_urlsafe(16)

        def move_to_undo(session: Session) -> None:
            was = self._comments.remove(comment_id, now, session)
            if was is None:
                raise NotFoundError(comment_id=comment_id)
            self._attachments.detach(session, was.files, name_comment(was.id))
            self._comments.add_undo(user_id, token, was, expires, session)

        self._store.run_in_transaction(move_to_undo)
        return token

    def remove_undo(self, user_id: int, comment_id: int) -> None:
        """Delete the undo of a removed comment, so that it stays removed."""
        self._comments.remove_undo(user_id, comment_id)

    def restore_comment(self, user_id: int, token: str, now: dt.datetime) -> Comment:
        """Restore a comment that a user removed.

        Raises:
            NotFoundError: the token has expired, was used, or isn't the user's; or the answered comment or
                the share is gone, or the user may not see it.
        """

        def restore_from_undo(session: Session) -> Comment:
            was = self._comments.consume_undo(user_id, token, now, session)
            seen = was is not None and self.find_share(user_id, was.share_id) is not None
            if was is None or not seen or not self._comments.restore(was, session):
                raise NotFoundError("This can no longer be undone.", undo=token)
            self._attach(was, session)
            return was

        return self._store.run_in_transaction(restore_from_undo)

    def get_thread(
        self, viewer: int | None, share: Share, cursor: str | None, at: int | None = None
    ) -> CommentThread:
        """Return a page of the comments that a viewer sees, with the comments above them.

        Args:
            cursor: where the previous page ended; None: the first page.
            at: id of a comment that the page must contain, wherever the page then starts.

        Raises:
            InvalidError: the cursor is invalid.
        """
        if cursor is not None and not _CURSOR.fullmatch(cursor):
            raise InvalidError("Can't load more of this list. Reload it.", field="cursor")
        found, more = self._read(viewer, share, after=cursor or "")
        whole = cursor is None
        if at is not None and whole and more and all(c.id != at for c in found):
            wanted = self._comments.find(at)
            if wanted is not None and wanted.share_id == share.id:
                found, more = self._read(viewer, share, since=get_position(wanted))
                whole = False
        return CommentThread(self._spoken(viewer, share, found), more, whole)

    def _read(
        self, viewer: int | None, share: Share, after: str = "", since: str = ""
    ) -> tuple[list[Comment], str | None]:
        """Return the comments of a page, and the cursor of the next page."""
        rows: list[Comment] = []
        for _ in range(LOOKS):
            limit = self._rows + 1 - len(rows)
            found = self._comments.list_comments(share.id, after, limit, since=since)
            heard = self._sight.find_unmuted_people(viewer, [c.user_id for c in found if c.user_id])
            rows += [c for c in found if c.user_id in heard]
            if len(rows) > self._rows:
                return rows[:-1], get_position(rows[-2])
            if len(found) < limit:
                return rows, None
            after = get_position(found[-1])
        return rows, after

    def _spoken(self, viewer: int | None, share: Share, rows: Sequence[Comment]) -> tuple[CommentView, ...]:
        here = {c.id: c for c in rows}
        above = {i for c in rows for i in (*c.path, c.parent) if i is not None} - set(here)
        known = {**self._comments.find_many(list(above)), **here} if above else here
        heard = self._sight.find_unmuted_people(viewer, [c.user_id for c in known.values() if c.user_id])
        people = self._people([c for c in known.values() if c.user_id in heard])
        made: list[CommentView] = []
        before: tuple[int, ...] = ()
        for row in rows:
            same = next(
                (n for n, (one, two) in enumerate(zip(before, row.path, strict=False)) if one != two),
                min(len(before), len(row.path)),
            )
            for depth, comment_id in enumerate(row.path[same:], same):
                comment = known.get(comment_id)
                face = heard.get(comment.user_id or 0) if comment else None
                if comment is None or face is None:
                    made.append(CommentView(0, depth, None))
                    continue
                made.append(
                    self._shown(
                        viewer,
                        share,
                        comment,
                        depth=depth,
                        face=face,
                        known=known,
                        heard=heard,
                        people=people,
                    )
                )
            before = row.path
        return tuple(made)

    def _shown(
        self,
        viewer: int | None,
        share: Share,
        comment: Comment,
        *,
        depth: int,
        face: PersonSummary,
        known: Mapping[int, Comment],
        heard: Mapping[int, PersonSummary],
        people: Mapping[str, str],
    ) -> CommentView:
        parent = known.get(comment.parent or 0)
        to = ""
        if parent is not None and parent.id not in comment.path[-2:-1]:
            other = heard.get(parent.user_id or 0)
            to = other.name if other else ""
        mine = comment.user_id == viewer
        return CommentView(
            comment.id,
            depth,
            face,
            comment.at,
            linkify.link_mentions(linkify.render_html(comment.text), MENTION, people),
            comment.text if mine else "",
            to,
            comment.edited is not None,
            mine,
            mine or (viewer is not None and share.user_id == viewer),
            comment.files,
        )

    def _people(self, comments: Iterable[Comment]) -> dict[str, str]:
        """Return the pages that the names in these comments lead to, by name."""
        names = list(dict.fromkeys(n for c in comments for n in find_mentions(c.text)))[:NAMES]
        return self._sight.find_pages(names)

    # -- the end of accounts
    def erase(self, user_id: int, now: dt.datetime) -> None:
        """Remove all comments and likes of a user, and all comments on their shares; safe to run again.

        A comment with answers leaves an empty placeholder.
        """
        shares = self._shares.find_ids_by_user(user_id)
        for start in range(0, len(shares), TOGETHER):
            part = shares[start : start + TOGETHER]
            self._likes.remove_by_shares(part)
            if owners := [name_comment(i) for i in self._comments.find_with_files(part)]:
                self._attachments.detach_all(owners)
            self._comments.remove_by_shares(part)
            self._notes.forget(user_id, part)
        self._notes.forget(user_id, [])
        self._comments.remove_undos(user_id)
        while found := self._comments.find_by_user(user_id, TOGETHER):
            for comment_id in found:
                self._store.run_in_transaction(partial(self._comments.remove, comment_id, now))
