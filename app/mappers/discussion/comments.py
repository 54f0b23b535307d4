"""Comments on shares: the collections ``comments`` and ``comment_undos``.

    comments       {_id, share_id, of, user_id?, parent?, path, text, at, edited?, removed?, answered?,
                    files?}
    comment_undos  {user_id, token, comment, expires}

``path`` holds the ids from the first comment of a branch down to this one, as in shares. Sorted as text it
gives the order of a nested list, so one index pages through a thread of any size. No document holds counts:
they are queried from the indexes, up to a limit.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from bson.int64 import Int64
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from app.errors import ConflictError
from app.mappers.discussion.likes import find_people_by_share
from app.mappers.media.attachments import build_attachments, parse_attachments
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import BATCH, Doc, Session, find_and_update
from app.mappers.sharing.shares import pack_path, unpack_path
from app.models.discussion.comments import Comment
from app.models.media.attachment import Attachment
from app.runtime import identity_map


class CommentMapper:
    """Document ↔ :class:`Comment`."""

    def __init__(self, database: Database[Doc]) -> None:
        self._comments: Collection[Doc] = database["comments"]
        self._undos: Collection[Doc] = database["comment_undos"]

    @translate_errors
    def add(self, comment: Comment, session: Session) -> None:
        """Store a comment.

        Raises:
            ConflictError: the id is taken; the transaction has ended.
        """
        try:
            self._comments.insert_one(_doc(comment), session=session)
        except DuplicateKeyError as e:
            raise ConflictError(comment_id=comment.id) from e

    @translate_errors
    def mark_answered(
        self, share_id: int, comment_id: int, session: Session, *, include_removed: bool = False
    ) -> Comment | None:
        """Record that a comment has an answer, so that its removal leaves a placeholder; None: it's gone.

        Args:
            include_removed: accept a removed comment.
        """
        query: Doc = {"_id": comment_id, "share_id": share_id}
        if not include_removed:
            query["removed"] = None
        found = find_and_update(self._comments, query, {"$set": {"answered": True}}, session)
        return parse_comment(found) if found else None

    @translate_errors
    def find(self, comment_id: int) -> Comment | None:
        """Return a comment, even the placeholder of a removed one."""
        return self.find_many([comment_id]).get(comment_id)

    @translate_errors
    def find_many(self, comment_ids: Sequence[int]) -> dict[int, Comment]:
        """Return the comments that exist, by id."""

        def _fetch(missing: Sequence[int]) -> dict[int, Comment]:
            found = self._comments.find({"_id": {"$in": list(missing)}}, batch_size=BATCH)
            return {d["_id"]: parse_comment(d) for d in found}

        return identity_map.find_each("comments", "comment", comment_ids, _fetch)

    @translate_errors
    def list_comments(self, share_id: int, after: str, limit: int, *, since: str = "") -> list[Comment]:
        """Return comments of a share in the order of a nested list, including placeholders of removed ones.

        Args:
            after: path of the comment before the first one.
            since: path of the first one.
        """
        query: Doc = {"share_id": share_id}
        if after or since:
            query["path"] = {"$gt": after} if after else {"$gte": since}
        version = identity_map.get_version("comments")
        found = self._comments.find(query).sort("path").limit(limit).hint("thread")
        comments = [parse_comment(d) for d in found]
        identity_map.keep_values("comments", version, "comment", {c.id: c for c in comments})
        return comments

    @translate_errors
    def find_authors(self, share_ids: Sequence[int], limit: int) -> dict[int, list[int]]:
        """Return the authors of at most ``limit`` comments on each of these shares, one per comment."""
        return find_people_by_share(self._comments, share_ids, {"user_id": {"$gt": 0}}, limit, "share_user")

    @translate_errors
    def find_by_text(self, share_id: int, user_id: int, text: str, since: dt.datetime) -> Comment | None:
        """Return a user's comment with this text on a share since a time, or None."""
        query = {"share_id": share_id, "user_id": user_id, "text": text, "at": {"$gte": since}}
        doc = self._comments.find_one(query, hint="share_user")
        return parse_comment(doc) if doc else None

    @translate_errors
    def update(
        self,
        comment_id: int,
        user_id: int,
        text: str,
        now: dt.datetime,
        *,
        files: Sequence[Attachment] | None = None,
        session: Session | None = None,
    ) -> tuple[Comment, Comment] | None:
        """Change a comment's text and attachments.

        Args:
            files: None leaves the attachments as they are.

        Returns:
            The comment before and after the change; None: the user has no such comment.
        """
        query = {"_id": comment_id, "user_id": user_id}
        changes: Doc = {"text": text, "edited": now}
        if files is not None:
            changes["files"] = build_attachments(files)
        done = self._comments.find_one_and_update(query, {"$set": changes}, session=session)
        return (parse_comment(done), parse_comment({**done, **changes})) if done else None

    @translate_errors
    def remove(self, comment_id: int, now: dt.datetime, session: Session) -> Comment | None:
        """Remove a comment and return it as it was, or None; an answered one leaves a placeholder."""
        query = {"_id": comment_id, "removed": None}
        doc = self._comments.find_one_and_delete({**query, "answered": None}, session=session)
        if doc is None:
            gone = {
                "$set": {"removed": now, "text": ""},
                "$unset": {"user_id": "", "edited": "", "files": ""},
            }
            doc = find_and_update(self._comments, query, gone, session)
            return parse_comment(doc) if doc else None
        self._prune(doc.get("parent"), session)
        return parse_comment(doc)

    def _prune(self, parent: int | None, session: Session) -> None:
        """Delete placeholders of removed comments that have no answers anymore."""
        while parent is not None:
            if self._comments.find_one({"parent": parent}, {"_id": 1}, session=session):
                return
            self._comments.update_one({"_id": parent}, {"$unset": {"answered": ""}}, session=session)
            gone = {"_id": parent, "removed": {"$type": "date"}}
            doc = self._comments.find_one_and_delete(gone, session=session)
            parent = doc.get("parent") if doc else None

    @translate_errors
    def restore(self, comment: Comment, session: Session) -> bool:
        """Restore a removed comment; return False if it exists, or if the answered comment is gone."""
        back: Doc = {"$set": {"user_id": comment.user_id, "text": comment.text}, "$unset": {"removed": ""}}
        if comment.edited:
            back["$set"]["edited"] = comment.edited
        if comment.files:
            back["$set"]["files"] = build_attachments(comment.files)
        query = {"_id": comment.id, "removed": {"$type": "date"}}
        if self._comments.update_one(query, back, session=session).matched_count:
            return True
        if comment.parent is not None and not self.mark_answered(
            comment.share_id, comment.parent, session, include_removed=True
        ):
            return False
        if self._comments.find_one({"_id": comment.id}, {"_id": 1}, session=session):
            return False
        self._comments.insert_one(_doc(comment), session=session)
        return True

    @translate_errors
    def add_undo(
        self, user_id: int, token: str, comment: Comment, expires: dt.datetime, session: Session
    ) -> None:
        """Store a removed comment for the user who removed it."""
        doc = {"user_id": Int64(user_id), "token": token, "comment": _doc(comment), "expires": expires}
        self._undos.insert_one(doc, session=session)

    @translate_errors
    def consume_undo(self, user_id: int, token: str, now: dt.datetime, session: Session) -> Comment | None:
        """Return a removed comment and delete its undo; None: the undo has expired, or isn't the user's."""
        query = {"user_id": user_id, "token": token, "expires": {"$gt": now}}
        doc = self._undos.find_one_and_delete(query, session=session)
        return parse_comment(doc["comment"]) if doc else None

    @translate_errors
    def find_by_user(self, user_id: int, limit: int) -> list[int]:
        """Return the ids of at most ``limit`` comments of a user."""
        found = self._comments.find({"user_id": user_id}, {"_id": 1}).hint("user").limit(limit)
        return [d["_id"] for d in found]

    @translate_errors
    def remove_undos(self, user_id: int) -> None:
        """Delete all undos of a user's comments."""
        self._undos.delete_many({"comment.user_id": user_id})

    @translate_errors
    def remove_undo(self, user_id: int, comment_id: int) -> None:
        """Delete the undo of one of a user's comments."""
        self._undos.delete_many({"comment.user_id": user_id, "comment._id": comment_id})

    @translate_errors
    def find_with_files(self, share_ids: Sequence[int]) -> list[int]:
        """Return the ids of the comments on these shares that have attachments."""
        query = {"share_id": {"$in": list(share_ids)}, "files": {"$exists": True}}
        return [d["_id"] for d in self._comments.find(query, {"_id": 1}).hint("thread")]

    @translate_errors
    def remove_by_shares(self, share_ids: Sequence[int]) -> None:
        """Delete all comments on these shares."""
        self._comments.delete_many({"share_id": {"$in": list(share_ids)}})
        self._undos.delete_many({"comment.share_id": {"$in": list(share_ids)}})


def get_position(comment: Comment) -> str:
    """Return a comment's position in its thread, for :meth:`CommentMapper.list_comments`."""
    return pack_path(comment.path)


def _doc(comment: Comment) -> Doc:
    doc: Doc = {
        "_id": Int64(comment.id),
        "share_id": Int64(comment.share_id),
        "of": Int64(comment.of),
        "path": pack_path(comment.path),
        "text": comment.text,
        "at": comment.at,
    }
    if comment.files:
        doc["files"] = build_attachments(comment.files)
    some = {"user_id": comment.user_id, "parent": comment.parent, "edited": comment.edited}
    return {**doc, **{k: Int64(v) if isinstance(v, int) else v for k, v in some.items() if v is not None}}


def parse_comment(doc: Doc) -> Comment:
    """Return the comment of a document."""
    return Comment(
        id=doc["_id"],
        share_id=doc["share_id"],
        of=doc["of"],
        user_id=doc.get("user_id"),
        at=doc["at"],
        path=unpack_path(doc["path"]),
        parent=doc.get("parent"),
        text=doc["text"],
        edited=doc.get("edited"),
        removed=doc.get("removed"),
        files=parse_attachments(doc.get("files")),
    )
