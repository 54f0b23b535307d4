"""Email addresses no longer have to be unique: several accounts may have the same address."""

from __future__ import annotations

from app.mappers.mongo.migrations.run import Run


def apply(run: Run) -> None:
    """Drop the old unique index: it rejects a second account, and a new index has the same key."""
    run.drop_index("users", "email")
