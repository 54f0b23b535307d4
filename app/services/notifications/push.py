"""Web push: devices are registered in the settings, and workers send the messages, never a request.

Each notification that the user wants pushed is one job (``push.queue_pushes``). That job queues another one
per device (``push.send``), which reads the notification again right before sending. Messages that were read
meanwhile, or may not be seen anymore, are not sent. A message that is lost with Redis still has its row on
the page.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from collections.abc import Callable
from typing import Any

from app import clock, logs
from app.config import Settings
from app.errors import ForbiddenError, LaterError, NotFoundError, StoreError
from app.gateways.notifications.devices import DeviceGateway
from app.gateways.notifications.notifications import NotificationGateway
from app.models.accounts.actor import Actor, Permission
from app.models.accounts.user import Session
from app.models.discussion.comments import NotificationKind, NotificationRow
from app.models.feeds.fetched import FetchRequest
from app.models.jobs.jobs import Job, Queue, Task
from app.models.notifications.push import TEST, DeliveryOutcome, Device, Message, PushDisabledReason
from app.ports import FetchStreamer, JobPort
from app.services.access import Limiter, require_permission, throttle
from app.services.notifications.notifications import NotificationService
from app.services.notifications.push_backoff import PushBackoff

log = logs.get(__name__)

_SHORTER = 0.8


class PushService:
    """Registers devices, queues messages and sends them.

    Args:
        build_message: builds the message of a notification in a language.
        build_test_message: builds a test message in a language.
    """

    def __init__(
        self,
        *,
        devices: DeviceGateway,
        notes: NotificationGateway,
        notifications: NotificationService,
        build_message: Callable[[NotificationRow, str], Message],
        build_test_message: Callable[[str], Message],
        jobs: JobPort,
        limiter: Limiter,
        settings: Settings,
    ) -> None:
        self._devices, self._notes, self._notifications = devices, notes, notifications
        self._said, self._trial = build_message, build_test_message
        self._jobs, self._limiter, self._settings = jobs, limiter, settings
        self._pause = dt.timedelta(seconds=settings.push_pause)
        self._ttl = dt.timedelta(seconds=settings.push_ttl)
        # Shorter than the retry delays of messages, so that the next attempt finds the host free.
        self._patience = PushBackoff(
            dt.timedelta(seconds=_SHORTER * settings.push_backoff_min),
            dt.timedelta(seconds=_SHORTER * settings.push_backoff_max),
            dt.timedelta(seconds=settings.push_timeout),
        )

    # -- the settings page
    @property
    def disabled_reason(self) -> PushDisabledReason | None:
        """Why web push is off on this server, or None if it is on."""
        return self._devices.disabled_reason

    def list_devices(self, actor: Actor) -> list[Device]:
        """Return the actor's devices, newest first."""
        require_permission(actor, Permission.USER_EDIT_SELF)
        return self._devices.read_devices(actor.user_id)

    def get_public_key(self, actor: Actor) -> str:
        """Return our public VAPID key for browsers; empty: the key hasn't been made yet."""
        require_permission(actor, Permission.USER_EDIT_SELF)
        return self._devices.find_public_key() or ""

    def make_key(self, actor: Actor) -> str:
        """Return our public VAPID key, made now if needed.

        Raises:
            ForbiddenError: web push is off on this server.
        """
        self._check(actor)
        self._devices.make_key(clock.now())
        return self._devices.find_public_key() or ""

    def register(
        self,
        actor: Actor,
        session: Session,
        endpoint: str,
        p256dh: str,
        auth: str,
        *,
        agent: str,
        language: str,
    ) -> Device:
        """Register the device of this session for the actor's notifications.

        Raises:
            InvalidError: the endpoint or the keys are invalid.
            TooLargeError: the actor has the maximum number of devices.
            RateLimitedError: too many registrations and tests within the hour.
            ForbiddenError: web push is off on this server.
        """
        self._check(actor)
        self._throttle(actor)
        device = self._devices.register(
            actor.user_id,
            session.key,
            endpoint,
            (p256dh, auth),
            agent=agent,
            language=language,
            now=clock.now(),
        )
        log.info("device_registered", user_id=actor.user_id, device_id=device.id, host=device.service)
        return device

    def remove(self, actor: Actor, device_id: int) -> None:
        """Remove one of the actor's devices.

        Raises:
            NotFoundError: the actor has no such device.
        """
        require_permission(actor, Permission.USER_EDIT_SELF)
        if not self._devices.remove(actor.user_id, device_id):
            raise NotFoundError(device_id=device_id)
        log.info("device_removed", user_id=actor.user_id, device_id=device_id)

    def send_test(self, actor: Actor) -> int:
        """Queue a test message to all of the actor's devices; return their number.

        Raises:
            RateLimitedError: too many registrations and tests within the hour.
            ForbiddenError: web push is off on this server.
            StoreError: Redis does not answer.
        """
        self._check(actor)
        self._throttle(actor)
        devices = self._devices.list_devices(actor.user_id)
        at = clock.to_millis(clock.now())
        self._jobs.enqueue_many([_send_job(device.id, TEST, 0, at) for device in devices])
        return len(devices)

    def _check(self, actor: Actor) -> None:
        require_permission(actor, Permission.USER_EDIT_SELF)
        if self.disabled_reason is not None:
            raise ForbiddenError(user_id=actor.user_id)

    def _throttle(self, actor: Actor) -> None:
        throttle(
            self._limiter, f"push:{actor.user_id}", limit=self._settings.push_per_hour, window=clock.HOUR
        )

    # -- the notifier
    def notify_devices(self, user_id: int, kind: NotificationKind, subject: int, now: dt.datetime) -> None:
        """Queue the push messages of a notification that has just changed; never raises StoreError."""
        with contextlib.suppress(StoreError):
            if self._devices.wants_push(user_id, kind):
                args = {
                    "user_id": user_id,
                    "kind": kind.value,
                    "subject": subject,
                    "at": clock.to_millis(now),
                }
                self._queue(Job(Task.PUSH_RING, args, Queue.PULL_SYSTEM))

    def _queue(self, job: Job) -> None:
        try:
            self._jobs.enqueue(job)
        except StoreError:
            log.warning("not_rung", task=job.task.value)

    # -- workers
    def enqueue_messages(self, user_id: int, kind: NotificationKind, subject: int, at: int) -> int:
        """Queue a message to each of a user's devices, unless this notification was pushed a moment ago.

        Args:
            at: when the notification changed, milliseconds since the epoch. The same value queues the same
                jobs.

        Returns:
            The number of messages.
        """
        note = self._note(user_id, kind, subject)
        if note is None or not self._notes.mark_pushed(note, clock.from_millis(at), self._pause):
            return 0
        jobs = [_send_job(d.id, kind.value, subject, at) for d in self._devices.list_devices(user_id)]
        self._jobs.enqueue_many(jobs)
        return len(jobs)

    def _note(self, user_id: int, kind: NotificationKind, subject: int) -> NotificationRow | None:
        """Return a notification as the page shows it, if its user wants it pushed and hasn't read it."""
        if not self._devices.wants_push(user_id, kind):
            return None
        note = self._notifications.find_notification(Actor(user_id), kind, subject)
        return None if note is None or note.read else note

    async def send_message(
        self, device_id: int, kind: str, subject: int, at: int, fetcher: FetchStreamer, *, failures: int
    ) -> dict[str, Any]:
        """Send one message, unless the notification was read or hidden meanwhile.

        Args:
            failures: failed attempts before this one.

        Raises:
            LaterError: the message must be sent again later; the error says when.
        """
        device = await asyncio.to_thread(self._devices.find_live_device, device_id)
        if device is None:
            return {"verdict": "nothing"}
        wait = self._patience.acquire(device.service, device.user_id, clock.now())
        if wait:
            if failures + 1 >= self._settings.push_tries:
                log.info("push_given_up", host=device.service)
                return {"verdict": "given_up"}
            pause = wait.total_seconds()
            raise LaterError(pause, device_id=device_id)
        silent: bool | None = None
        try:
            request = await asyncio.to_thread(self._request, device, kind, subject, at)
            if request is None:
                return {"verdict": "nothing"}
            answers = [fetched async for fetched in fetcher.stream_fetches([request])]
            fetched = answers[0] if answers else None
            silent = self._devices.is_unanswered(fetched)
        finally:
            self._patience.release(device.service, device.user_id, clock.now(), unanswered=silent)
        verdict, pause = await asyncio.to_thread(
            self._devices.record_result, device, fetched, failures + 1, clock.now()
        )
        if verdict is DeliveryOutcome.LATER:
            raise LaterError(pause, device_id=device_id)
        return {"verdict": verdict.value}

    def _request(self, device: Device, kind: str, subject: int, at: int) -> FetchRequest | None:
        now = clock.now()
        left = self._ttl - (now - clock.from_millis(at))
        # A TTL setting of 0 still sends the message, which the service then does not keep.
        if left <= dt.timedelta() and self._ttl:
            return None
        language = self._devices.get_language(device)
        if kind == TEST:
            message = self._trial(language)
        else:
            note = self._note(device.user_id, NotificationKind(kind), subject)
            if note is None:
                return None
            message = self._said(note, language)
        return self._devices.build_request(device, message, max(0, int(left.total_seconds())), now)


def _send_job(device_id: int, kind: str, subject: int, at: int) -> Job:
    args = {"id": device_id, "kind": kind, "subject": subject, "at": at}
    return Job(Task.PUSH_SEND, args, Queue.PULL_SYSTEM)
