"""Devices on which somebody is told of things: whose they are, what is sent to them, when they go."""

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
from app.models.feeds.fetched import Fetched, FetchRequest
from app.models.notifications.push import DeliveryOutcome, Device, Message, PushDisabledReason, VapidSender

log = logs.get(__name__)

AGENT_MAX = 200


class DeviceGateway:
    """Business rules of devices.

    Args:
        rng: draws the jitter of further tries.
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
        self._policy = Policy(settings)
        self._rng = rng or random.Random()  # noqa: S311 — spreads load, guards nothing
        self._key: bytes | None = None
        #: Why nobody can be told, None: everybody can.
        self.disabled_reason: PushDisabledReason | None = push.find_disabled_reason(settings)

    # -- our key
    def find_public_key(self) -> str | None:
        """Return the key that browsers are to know us by; None: nobody has asked for one yet."""
        from app.feeds.webpush import crypto

        key = self._known_key()
        return push.encode_key(crypto.derive_public_key(key)) if key else None

    def make_key(self, now: dt.datetime) -> None:
        """Make the one key of this system, where there is none."""
        from app.feeds.webpush import crypto

        if self._known_key() is None:
            self._key = self._devices.add_key(crypto.create_key(), now)

    def _known_key(self) -> bytes | None:
        # It never changes, so one look is enough.
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
        """Store a device, or what is new of it.

        Args:
            keys: ``p256dh`` and ``auth`` as the browser gives them, base64url.

        Raises:
            InvalidError: endpoint or keys do not fit.
            TooLargeError: he has as many devices as may be.
        """
        address = push.check_endpoint(endpoint, self._policy, self._settings.push_endpoint_length)
        p256dh, auth = push.read_keys(*keys)
        others = [d for d in self.list_devices(user_id) if d.endpoint != address and d.session != session]
        # Requests at the same moment may go beyond it by their number: that is no matter.
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
        """Return somebody's devices, the newest first; those whose sessions have ended go."""
        living, gone = self._sorted(user_id)
        for device in gone:
            self._devices.remove(device.id, user_id, device.session)
        return living

    def read_devices(self, user_id: int) -> list[Device]:
        """The same for who looks: nothing is written."""
        return self._sorted(user_id)[0]

    def _sorted(self, user_id: int) -> tuple[list[Device], list[Device]]:
        found = self._devices.find_by_user(user_id)
        alive = {s.key for s in self._sessions.list_sessions(user_id)} if found else set()
        return [d for d in found if d.session in alive], [d for d in found if d.session not in alive]

    def remove(self, user_id: int, device_id: int) -> bool:
        """Delete somebody's device; False: he has none of this id."""
        return self._devices.remove(device_id, user_id)

    # -- sending
    def wants_push(self, user_id: int, kind: NotificationKind) -> bool:
        """Return whether somebody is to be told of such a thing on his devices, as far as he has any."""
        if (
            self.disabled_reason is not None
            or not kind.push_setting
            or not self._devices.has_devices(user_id)
        ):
            return False
        user = self._accounts.find_user(user_id)
        return user is not None and not user.disabled and bool(getattr(user.preferences, kind.push_setting))

    def find_live_device(self, device_id: int) -> Device | None:
        """Return a device whose session lives; one whose session has ended goes."""
        device = self._devices.find(device_id)
        if device is None or self.disabled_reason is not None:
            return None
        if not self._sessions.is_session_alive(device.session, device.user_id):
            self._devices.remove(device.id, device.user_id, device.session)
            return None
        return device

    def get_language(self, device: Device) -> str:
        """Return what somebody reads on a device: chosen for the account, else as it was on its page."""
        user = self._accounts.find_user(device.user_id)
        return (user.preferences.language if user else "") or device.language

    def build_request(self, device: Device, message: Message, ttl: int, now: dt.datetime) -> FetchRequest:
        """Return a message as its push service takes it: encrypted, signed."""
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
        """Return whether a push service took all its time, or did not answer at all."""
        return push.is_unanswered(fetched)

    def record_result(
        self, device: Device, fetched: Fetched | None, tries: int, now: dt.datetime
    ) -> tuple[DeliveryOutcome, float]:
        """Note how a message ended; return what that means, and of "later" the seconds until then.

        Args:
            tries: how often it was sent, this time included.
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
