"""Who may see an attached file: the people who may see a post, note or comment with it (security.md U12)."""

from __future__ import annotations

from app.gateways.media.files import FileGateway
from app.gateways.sharing.visibility import VisibilityGateway
from app.mappers.discussion.comments import CommentMapper
from app.mappers.sharing.shares import ShareMapper
from app.models.media.attachment import parse_owner
from app.models.media.user_file import UserFile


class AttachedFileGateway:
    """Finds attached files for their viewers."""

    def __init__(
        self,
        files: FileGateway,
        shares: ShareMapper,
        comments: CommentMapper,
        visibility: VisibilityGateway,
    ) -> None:
        self._files, self._shares, self._comments = files, shares, comments
        self._sight = visibility

    def find_visible(self, viewer: int | None, file_id: int) -> UserFile | None:
        """Return a file that a viewer may see; None: there is none, or they may not see it.

        Everyone sees their own files. Others see a file as long as a post, note or comment that they may see
        has it: nothing is kept from an earlier look.
        """
        file = self._files.find_any(file_id)
        if file is None or viewer == file.user_id:
            return file
        return file if any(self._can_see(viewer, file, owner) for owner in file.owners) else None

    def _can_see(self, viewer: int | None, file: UserFile, owner: str) -> bool:
        kind, number = parse_owner(owner)
        if kind == "share":
            return self._can_see_share(viewer, number, file)
        if kind == "comment":
            comment = self._comments.find(number)
            return (
                comment is not None
                and not comment.removed
                and comment.user_id == file.user_id
                and self._can_see_share(viewer, comment.share_id)
                and file.user_id in self._sight.find_unmuted_people(viewer, [file.user_id])
            )
        return False  # avatars have addresses of their own; all else is nobody's but the user's

    def _can_see_share(self, viewer: int | None, share_id: int, file: UserFile | None = None) -> bool:
        share = self._shares.find(share_id)
        if share is None or (file is not None and share.user_id != file.user_id):
            return False
        return self._sight.can_see(viewer, share)
