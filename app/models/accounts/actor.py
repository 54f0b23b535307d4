"""Actors, roles and permissions: every service method takes an actor and checks their permissions."""

from __future__ import annotations

import dataclasses
import enum


class Permission(enum.StrEnum):
    """``resource:action``, in alphabetical order. :data:`GRANTS` lists each role's permissions."""

    ADMIN_SEE = "admin:see"
    ENTRY_MARK = "entry:mark"
    ENTRY_READ = "entry:read"
    FEED_DISCOVER = "feed:discover"
    FEED_MANAGE = "feed:manage"
    FEED_REFRESH = "feed:refresh"
    FEED_SEE = "feed:see"
    FILE_EDIT = "file:edit"
    FILE_SEE = "file:see"
    FOLDER_EDIT = "folder:edit"
    JOB_MANAGE = "job:manage"
    PACK_EDIT = "pack:edit"
    PREFERENCE_EDIT = "preference:edit"
    REPORT_MAKE = "report:make"
    REPORT_MANAGE = "report:manage"
    SHARE_EDIT = "share:edit"
    SUBSCRIPTION_EDIT = "subscription:edit"
    SUBSCRIPTION_SEE = "subscription:see"
    TAG_EDIT = "tag:edit"
    USER_CREATE = "user:create"
    USER_EDIT_SELF = "user:edit-self"
    USER_MANAGE = "user:manage"


class Role(enum.StrEnum):
    """The role of a user; the first user of a server is its admin."""

    USER = "user"
    ADMIN = "admin"


#: Permissions that affect other people.
_ADMIN = frozenset(
    {
        Permission.ADMIN_SEE,
        Permission.FEED_MANAGE,
        Permission.JOB_MANAGE,
        Permission.PACK_EDIT,
        Permission.REPORT_MANAGE,
        Permission.USER_CREATE,
        Permission.USER_MANAGE,
    }
)
_USER = frozenset(Permission) - _ADMIN

GRANTS: dict[Role, frozenset[Permission]] = {Role.USER: _USER, Role.ADMIN: frozenset(Permission)}


@dataclasses.dataclass(frozen=True, slots=True)
class Actor:
    """A logged-in user as services see them, or a program that acts for them.

    Attributes:
        social: False if they have never followed anyone.
        synced: whether they have used other apps, which request the changes since their last visit.
        limits: the permissions of a program's token; None for all permissions of the user.
    """

    user_id: int
    role: Role = Role.USER
    social: bool = True
    synced: bool = False
    limits: frozenset[Permission] | None = None

    def has_permission(self, permission: Permission) -> bool:
        """Return whether this actor's role has the permission, and their token if they use one."""
        return permission in GRANTS[self.role] and (self.limits is None or permission in self.limits)
