"""A write conflict, as two transactions cause it that change one document."""

from __future__ import annotations

import pytest
from pymongo.errors import OperationFailure

from app.bootstrap.services import Services

_WRITE_CONFLICT = 112


def cause_conflict(services: Services) -> None:
    """Let MongoDB reject a write, because another transaction has changed the same document."""
    client, rows = services.store.database.client, services.store.database["conflicts"]
    rows.insert_one({"_id": 1, "n": 0})
    with client.start_session() as first, client.start_session() as second:
        first.start_transaction()
        second.start_transaction()
        rows.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=first)
        with pytest.raises(OperationFailure) as raised:
            rows.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=second)
        assert raised.value.code == _WRITE_CONFLICT
        first.abort_transaction()
    rows.drop()
