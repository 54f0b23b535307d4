"""Old pictures, blobs that a store lacks, and storage are walked in order: their indexes include the id."""

from __future__ import annotations

from app.mappers.mongo.migrations.run import Run


def apply(run: Run) -> None:
    """Drop the indexes that others have replaced."""
    run.drop_index("blobs", "want")
    run.drop_index("sources", "used")
    run.drop_index("usage", "largest")
