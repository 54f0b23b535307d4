"""App passwords and access tokens: the collection ``tokens``.

    {_id, user_id, kind, name, created, scopes, secret, auth?, fever?, fever_name?, stream?, used?, agent?,
     expires?}

``secret``, ``auth`` and ``fever`` are hashes of the secrets that programs send
(:class:`app.models.accounts.token.Secrets`).
"""

from __future__ import annotations

import dataclasses
import datetime as dt

from bson.binary import Binary
from pymongo import DESCENDING
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from app.mappers.accounts.users import keep_user
from app.mappers.mongo import ids
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc, is_duplicate
from app.models.accounts.token import Scope, Secrets, Token, TokenKind
from app.runtime import identity_map

#: The user of each token, as :meth:`app.mappers.accounts.users.UserMapper.find` reads them.
_WITH_USER: Doc = {
    "$lookup": {
        "from": "users",
        "localField": "user_id",
        "foreignField": "_id",
        "pipeline": [{"$match": {"leaving": None}}, {"$project": {"password": 0}}],
        "as": "user",
    }
}


class TokenMapper:
    """Document ↔ :class:`Token`."""

    def __init__(self, database: Database[Doc]) -> None:
        self._tokens: Collection[Doc] = database["tokens"]

    @translate_errors
    def add(self, token: Token, secrets: Secrets) -> Token:
        """Store a new token; its id is assigned here."""
        doc: Doc = {
            "user_id": token.user_id,
            "kind": token.kind.value,
            "name": token.name,
            "created": token.created,
            "scopes": [scope.value for scope in token.scopes],
            "secret": Binary(secrets.secret),
        }
        if secrets.auth is not None:
            doc["auth"] = Binary(secrets.auth)
        if secrets.fever:
            doc["fever"] = [Binary(key) for key in secrets.fever]
            doc["fever_name"] = token.fever_name
        if token.stream:
            doc["stream"] = token.stream
        if token.expires is not None:
            doc["expires"] = token.expires
        while True:
            doc["_id"] = ids.reserve_ids()
            try:
                self._tokens.insert_one(doc)
            except DuplicateKeyError as e:
                if not is_duplicate(e, "_id"):
                    raise
            else:
                return dataclasses.replace(token, id=doc["_id"])

    @translate_errors
    def find_by_secret(self, secret: bytes, kind: TokenKind) -> Token | None:
        """Return the token of this kind with this hash."""
        return self._one({"secret": Binary(secret), "kind": kind.value})

    @translate_errors
    def find_by_auth(self, auth: bytes) -> Token | None:
        """Return the app password with this hash of its Google Reader auth value."""
        return self._one({"auth": Binary(auth)})

    @translate_errors
    def find_by_fever(self, key: bytes) -> Token | None:
        """Return the app password with this hash of a Fever key."""
        return self._one({"fever": Binary(key)})

    def _one(self, query: Doc) -> Token | None:
        """Return a token; its user is read by the same command and kept for this request."""
        version = identity_map.get_version("users")
        doc = next(iter(self._tokens.aggregate([{"$match": query}, _WITH_USER, {"$limit": 1}])), None)
        if doc is None:
            return None
        keep_user(version, doc["user_id"], next(iter(doc["user"]), None))
        return _token(doc)

    @translate_errors
    def find_by_user(self, user_id: int) -> list[Token]:
        """Return a user's tokens, newest first."""

        def _fetch() -> list[Token]:
            return [_token(doc) for doc in self._tokens.find({"user_id": user_id}).sort("_id", DESCENDING)]

        return list(identity_map.find_once("tokens", "of", user_id, _fetch))

    @translate_errors
    def touch(self, token_id: int, used: dt.datetime, agent: str) -> None:
        """Record a use of a token."""
        self._tokens.update_one({"_id": token_id}, {"$set": {"used": used, "agent": agent}})

    @translate_errors
    def remove(self, user_id: int, token_id: int) -> bool:
        """Delete a token; return False if the user has no such token."""
        return bool(self._tokens.delete_one({"_id": token_id, "user_id": user_id}).deleted_count)

    @translate_errors
    def remove_by_user(self, user_id: int) -> int:
        """Delete all tokens of a user; return how many there were."""
        return self._tokens.delete_many({"user_id": user_id}).deleted_count


def _token(doc: Doc) -> Token:
    return Token(
        id=doc["_id"],
        user_id=doc["user_id"],
        kind=TokenKind(doc["kind"]),
        name=doc["name"],
        created=doc["created"],
        scopes=tuple(Scope(scope) for scope in doc["scopes"]),
        fever="fever" in doc,
        used=doc.get("used"),
        expires=doc.get("expires"),
        agent=doc.get("agent", ""),
        fever_name=doc.get("fever_name", ""),
        stream=doc.get("stream", ""),
    )
