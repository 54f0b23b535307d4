"""Who asks: every service method takes an actor and checks what he may do."""

from __future__ import annotations

import dataclasses
import enum


class Permission(enum.StrEnum):
    """``resource:action``, alphabetical. What needs which role is in :data:`GRANTS`."""

    ADMIN_SEE = "admin:see"
    ENTRY_MARK = "entry:mark"
    ENTRY_READ = "entry:read"
    FEED_DISCOVER = "feed:discover"
    FEED_MANAGE = "feed:manage"
    FEED_REFRESH = "feed:refresh"
    FEED_SEE = "feed:see"
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
    """What a user is; the first user of a server is its admin."""

    USER = "user"
    ADMIN = "admin"


#: What concerns others than oneself.
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
    """A logged-in user as services see him, or a program on his behalf.

    Attributes:
        social: False: he has never followed anybody.
        synced: he has read with other apps, which ask what has changed since they last came.
        limits: what the token of a program lets it do; None: all that its user may.
    """

    user_id: int
    role: Role = Role.USER
    social: bool = True
    synced: bool = False
    limits: frozenset[Permission] | None = None

    def has_permission(self, permission: Permission) -> bool:
        """Return whether this actor's role holds the permission, and his token if he comes by one."""
        return permission in GRANTS[self.role] and (self.limits is None or permission in self.limits)
