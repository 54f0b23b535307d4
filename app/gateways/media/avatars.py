"""Avatars: the picture that stands for a person, a file of theirs with the owner ``avatar:USER``."""

from __future__ import annotations

from functools import partial

from app.errors import NotFoundError
from app.gateways.media.blobs import BlobGateway
from app.gateways.media.drawing import Body, DrawingGateway
from app.gateways.media.files import FileGateway
from app.mappers.accounts.users import UserMapper
from app.mappers.mongo.store import Session, Store
from app.mappers.sharing.profiles import ProfileMapper
from app.mappers.sharing.shared_feeds import SharedFeedMapper
from app.models.accounts.user import get_avatar_version
from app.models.media.blob import Purpose
from app.models.media.user_file import UserFile

#: The name of the file in the list of the person's files.
FILE_NAME = "avatar"


class AvatarGateway:
    """Sets, removes and finds avatars. An avatar that is replaced loses its owner, and is deleted later."""

    def __init__(
        self,
        *,
        store: Store,
        users: UserMapper,
        profiles: ProfileMapper,
        shared_feeds: SharedFeedMapper,
        files: FileGateway,
        blobs: BlobGateway,
        drawing: DrawingGateway,
    ) -> None:
        self._store, self._users, self._profiles = store, users, profiles
        self._shared_feeds = shared_feeds
        self._files, self._blobs, self._drawing = files, blobs, drawing

    def draw(self, user_id: int, body: Body) -> None:
        """Draw a picture, and make it a person's avatar.

        Raises:
            NotFoundError: there is no such account.
            PictureError: as for :meth:`DrawingGateway.keep`; the same for other errors.
        """
        self._drawing.keep(body, Purpose.AVATAR, partial(self._add, user_id, body.size))

    def _add(self, user_id: int, size: int, session: Session, blob_id: bytes) -> None:
        self._files.detach(session, name_owner(user_id))
        owners = [name_owner(user_id)]
        self._files.add(session, user_id, blob_id, FILE_NAME, size, purpose=Purpose.AVATAR, owners=owners)
        self._set(user_id, blob_id, session)

    def adopt(self, user_id: int, file_id: int) -> None:
        """Make a file that a person has uploaded for this purpose their avatar.

        Raises:
            NotFoundError: the person has no such file, or it wasn't drawn as an avatar.
        """
        file = self._files.get(user_id, file_id)
        blob = self._blobs.find([file.blob]).get(file.blob)
        if blob is None or file.purpose is not Purpose.AVATAR or not file.list_names(blob):
            raise NotFoundError(file_id=file_id)
        self._store.run_in_transaction(partial(self._adopt, file))

    def _adopt(self, file: UserFile, session: Session) -> None:
        self._files.detach(session, name_owner(file.user_id))
        self._files.attach(session, file.user_id, [file.id], name_owner(file.user_id))
        self._set(file.user_id, file.blob, session)

    def remove(self, user_id: int) -> None:
        """Let a letter stand for a person again; nothing happens if it does already."""
        self._store.run_in_transaction(partial(self._remove, user_id))

    def _remove(self, user_id: int, session: Session) -> None:
        self._files.detach(session, name_owner(user_id))
        self._users.set_avatar(user_id, None, session)
        self._shared_feeds.set_avatar(user_id, "", session)

    def forget(self, file: UserFile, session: Session) -> None:
        """Let a letter stand for a person whose avatar is this file, in the transaction that deletes it."""
        if name_owner(file.user_id) in file.owners:
            self._users.set_avatar(file.user_id, None, session)

    def _set(self, user_id: int, blob_id: bytes, session: Session) -> None:
        if not self._users.set_avatar(user_id, blob_id, session):
            raise NotFoundError(user_id=user_id)
        self._shared_feeds.set_avatar(user_id, get_avatar_version(blob_id), session)

    def find_blob(self, handle: str) -> bytes:
        """Return the blob of a person's avatar.

        Raises:
            NotFoundError: there is no such person, they are suspended, or they have no avatar.
        """
        user_id = next(iter(self._profiles.find_ids_by_name([handle]).values()), None)
        # Suspended people have no summary.
        if user_id is not None and user_id in self._profiles.find_summaries([user_id]):
            user = self._users.find(user_id)
            if user is not None and user.avatar is not None:
                return user.avatar
        raise NotFoundError(handle=handle[:64])


def name_owner(user_id: int) -> str:
    """Return the owner of a person's avatar, as files name it."""
    return f"avatar:{user_id}"
