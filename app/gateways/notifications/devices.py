"""Web push devices: registration, messages to them, and removal of dead devices."""

from __future__ import annotations

import datetime as dt
import random

from app import logs
from app.config import Settings
from app.errors import TooLargeError
from app.feeds.fetch.address_policy import Policy
from app.feeds.webpush import push
from app.gateways.accounts.accounts import AccountGateway
from app.gateways.accounts.sessions import SessionGateway
from app.mappers.notifications.devices import DeviceMapper
from app.models.discussion.comments import NotificationKind
from app.models.feeds.fetched import Fetched, FetchRequest, Purpose
from app.models.notifications.push import DeliveryOutcome, Device, Message, PushDisabledReason, VapidSender

log = logs.get(__name__)

AGENT_MAX = 200


class DeviceGateway:
    """Registers devices, builds requests to them and records the results.

    Args:
        rng: draws the jitter of retries.
    """

    def __init__(
        self,
        devices: DeviceMapper,
        accounts: AccountGateway,
        sessions: SessionGateway,
        settings: Settings,
        rng: random.Random | None = None,
    ) -> None:
        self._devices, self._accounts, self._settings = devices, accounts, settings
        self._sessions = sessions
        self._policy = Policy(settings, Purpose.PUSH)
        self._rng = rng or random.Random()  # noqa: S311 — spreads load, guards nothing
        self._key: bytes | None = None
        #: Why web push is off on this server; None: it is on.
        self.disabled_reason: PushDisabledReason | None = push.find_disabled_reason(settings)

    # -- our key
    def find_public_key(self) -> str | None:
        """Return our public VAPID key; None: the key hasn't been made yet."""
        from app.feeds.webpush import crypto

        key = self._known_key()
        return push.encode_key(crypto.derive_public_key(key)) if key else None

    def make_key(self, now: dt.datetime) -> None:
        """Create the VAPID key of this system if there is none."""
        from app.feeds.webpush import crypto

        if self._known_key() is None:
            self._key = self._devices.add_key(crypto.create_key(), now)

    def _known_key(self) -> bytes | None:
        # The key never changes, so it is read once.
        if self._key is None:
            self._key = self._devices.find_key()
        return self._key

    # -- devices
    def register(
        self,
        user_id: int,
        session: bytes,
        endpoint: str,
        keys: tuple[str, str],
        *,
        agent: str,
        language: str,
        now: dt.datetime,
    ) -> Device:
        """Store a device, or update a known one.

        Args:
            keys: ``p256dh`` and ``auth`` from the browser, base64url.

        Raises:
            InvalidError: the endpoint or the keys are invalid.
            TooLargeError: the user has the maximum number of devices.
        """
        address = push.check_endpoint(endpoint, self._policy, self._settings.push_endpoint_length)
        p256dh, auth = push.read_keys(*keys)
        others = [d for d in self.list_devices(user_id) if d.endpoint != address and d.session != session]
        # Concurrent requests may exceed the limit slightly, which does no harm.
        if len(others) >= self._settings.push_devices:
            raise TooLargeError(
                "You can have at most %(limit)s devices. Remove one first.",
                limit=self._settings.push_devices,
            )
        new = Device(
            id=0,
            user_id=user_id,
            session=session,
            endpoint=address,
            p256dh=p256dh,
            auth=auth,
            created=now,
            agent=agent[:AGENT_MAX],
            language=language,
        )
        return self._devices.put(new)

    def list_devices(self, user_id: int) -> list[Device]:
        """Return a user's devices, newest first; delete devices whose sessions have ended."""
        living, gone = self._sorted(user_id)
        for device in gone:
            self._devices.remove(device.id, user_id, device.session)
        return living

    def read_devices(self, user_id: int) -> list[Device]:
        """Return a user's devices like :meth:`list_devices`, but write nothing."""
        return self._sorted(user_id)[0]

    def _sorted(self, user_id: int) -> tuple[list[Device], list[Device]]:
        found = self._devices.find_by_user(user_id)
        alive = {s.key for s in self._sessions.list_sessions(user_id)} if found else set()
        return [d for d in found if d.session in alive], [d for d in found if d.session not in alive]

    def remove(self, user_id: int, device_id: int) -> bool:
        """Delete a user's device; return False if the user has no such device."""
        return self._devices.remove(device_id, user_id)

    # -- sending
    def wants_push(self, user_id: int, kind: NotificationKind) -> bool:
        """Return whether a user has devices and wants this kind of notification on them."""
        if (
            self.disabled_reason is not None
            or not kind.push_setting
            or not self._devices.has_devices(user_id)
        ):
            return False
        user = self._accounts.find_user(user_id)
        return user is not None and not user.disabled and bool(getattr(user.preferences, kind.push_setting))

    def find_live_device(self, device_id: int) -> Device | None:
        """Return a device with a live session; delete a device whose session has ended."""
        device = self._devices.find(device_id)
        if device is None or self.disabled_reason is not None:
            return None
        if not self._sessions.is_session_alive(device.session, device.user_id):
            self._devices.remove(device.id, device.user_id, device.session)
            return None
        return device

    def get_language(self, device: Device) -> str:
        """Return the language of a device: the account's preference, or else the page's at registration."""
        user = self._accounts.find_user(device.user_id)
        return (user.preferences.language if user else "") or device.language

    def build_request(self, device: Device, message: Message, ttl: int, now: dt.datetime) -> FetchRequest:
        """Return the encrypted and signed request that sends a message to a push service."""
        from app.feeds.webpush import crypto

        self.make_key(now)
        sender = VapidSender(self._known_key() or b"", push.get_contact(self._settings))
        text = push.pack_message(message, self._settings.push_payload)
        body = crypto.encrypt(text, device.p256dh, device.auth)
        signed = crypto.build_authorization(sender, push.get_origin(device.endpoint), now)
        within = self._settings.push_timeout
        return push.build_request(device, body, signed, tag=message.tag, ttl=ttl, timeout=within)

    @staticmethod
    def is_unanswered(fetched: Fetched | None) -> bool:
        """Return whether a push service timed out or did not answer."""
        return push.is_unanswered(fetched)

    def record_result(
        self, device: Device, fetched: Fetched | None, tries: int, now: dt.datetime
    ) -> tuple[DeliveryOutcome, float]:
        """Record the result of a message; return the outcome and, for "later", the seconds to wait.

        Args:
            tries: attempts so far, including this one.
        """
        verdict = push.classify_response(fetched)
        if verdict is DeliveryOutcome.LATER and tries < self._settings.push_tries:
            asked = fetched.retry_after if fetched else None
            return verdict, push.compute_retry_delay(tries, asked, self._settings, self._rng)
        dropped = False
        if verdict is DeliveryOutcome.SENT:
            self._devices.mark_used(device.id, now)
        elif verdict is DeliveryOutcome.GONE:
            dropped = self._devices.remove(device.id, device.user_id)
        else:
            verdict = DeliveryOutcome.REFUSED
            dropped = self._devices.count_failure(device.id, self._settings.push_failures)
        status = fetched.status if fetched else 0
        log.info("push_ended", verdict=verdict.value, status=status, host=device.service, dropped=dropped)
        return verdict, 0.0
