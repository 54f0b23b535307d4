"""Delayed tasks that couldn't be queued, for administrators; every change is logged (W20)."""

from __future__ import annotations

from app import logs
from app.errors import NotFoundError
from app.models.accounts.actor import Actor, Permission
from app.models.jobs.later import DeadLetter
from app.ports import LaterPort
from app.services.access import require_permission
from app.services.later import DeadLetters

log = logs.get(__name__)

#: Letters on the page; few tasks ever get one.
LISTED = 50


class DeadLetterService:
    """Lists delayed tasks that couldn't be queued, runs them again, and deletes them.

    All methods raise: ForbiddenError: the actor isn't an admin. StoreError: a store isn't responding.
    """

    def __init__(self, letters: DeadLetters, later: LaterPort) -> None:
        self._letters, self._later = letters, later

    def list_newest(self, actor: Actor) -> list[DeadLetter]:
        """Return the newest letters."""
        require_permission(actor, Permission.ADMIN_SEE)
        return self._letters.find_newest(LISTED)

    def run_again(self, actor: Actor, letter_id: str) -> None:
        """Request the task of a letter at once, and delete the letter.

        Raises:
            NotFoundError: the letter is gone, or its task can't run again.
        """
        require_permission(actor, Permission.JOB_MANAGE)
        letter = self._letters.find(letter_id)
        if letter is None or letter.args is None:
            raise NotFoundError
        self._later.touch(letter.kind, letter.key, letter.args, delay=0, limit=0)
        self._letters.remove(letter.id)
        log.info("later_requested", kind=letter.kind, by=actor.user_id)

    def remove(self, actor: Actor, letter_id: str) -> None:
        """Delete a letter; one that is gone already is a success."""
        require_permission(actor, Permission.JOB_MANAGE)
        if self._letters.remove(letter_id):
            log.info("later_dropped", by=actor.user_id)
