"""Reasons why Eventr can't use a MongoDB that responds: sentences for operators, which quote no address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pymongo.errors import OperationFailure

STANDALONE = (
    "MongoDB runs as a standalone server, but transactions need a replica set. Use mongod --replSet, "
    "then rs.initiate()."
)
UNINITIATED = "MongoDB's replica set isn't initiated yet. Run rs.initiate() on it."
WRONG_PASSWORD = "MongoDB rejects the user name or password. Check EVENTR_MONGODB_URI."  # noqa: S105
NO_PERMISSION = (
    "MongoDB doesn't let Eventr use its database. Check the user name and password in EVENTR_MONGODB_URI, "
    "and give this user the role readWrite."
)
_SENTENCES = {18: WRONG_PASSWORD, 8000: WRONG_PASSWORD, 13: NO_PERMISSION}


def find_problem(hello: Mapping[str, Any]) -> str | None:
    """Return why Eventr can't use a server with this answer to ``hello``, or None if it can."""
    if "setName" in hello or hello.get("msg") == "isdbgrid":
        return None
    return UNINITIATED if hello.get("isreplicaset") else STANDALONE


def describe_refusal(error: BaseException | None) -> str | None:
    """Return a sentence if this error means that MongoDB rejects Eventr's login, else None."""
    return _SENTENCES.get(error.code or 0) if isinstance(error, OperationFailure) else None
