"""A lock that its owner must renew, and transactions that only its owner can make."""

from __future__ import annotations

import enum
import secrets
from collections.abc import Callable
from typing import Any

import redis

_HOLD = """
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 2 or 0
"""
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class LostLeaseError(Exception):
    """This owner doesn't hold the lease: the transaction was not executed."""


class LeaseState(enum.IntEnum):
    """How a lease is held; NO is false."""

    NO = 0
    STILL = 1
    ANEW = 2  #: it was free until now, so another owner may have held it since


class Lease:
    """A lease that blocks others for at most ``seconds`` after its owner is lost, and fences off late writes.

    Time decides when the lease passes on, but not who may write: :meth:`write` compares the token in Redis in
    the step that writes, so a process that was frozen in between writes nothing.
    """

    def __init__(self, client: redis.Redis, key: str, seconds: float) -> None:
        self._client, self._key, self._ms = client, key, int(seconds * 1000)
        self._token = secrets.token_hex(8).encode()
        self._hold, self._release = client.register_script(_HOLD), client.register_script(_RELEASE)

    def acquire(self) -> LeaseState:
        """Acquire or renew the lease."""
        return LeaseState(int(self._hold(keys=[self._key], args=[self._token, self._ms])))

    def release(self) -> None:
        """Release the lease, so that another owner can acquire it at once."""
        self._release(keys=[self._key], args=[self._token])

    def write(self, fill: Callable[[Any], None]) -> list[Any]:
        """Run commands in one transaction that takes effect only while this lease is held.

        Args:
            fill: Adds commands and scripts to the given pipeline.

        Raises:
            LostLeaseError: The lease isn't held; nothing has changed.
        """
        with self._client.pipeline(transaction=True) as pipe:
            # From here on, any change of the key, including its expiry, cancels the transaction.
            pipe.watch(self._key)  # type: ignore[no-untyped-call]
            if pipe.get(self._key) != self._token:
                raise LostLeaseError
            pipe.multi()
            fill(pipe)
            try:
                return pipe.execute()
            except redis.WatchError as e:
                raise LostLeaseError from e
