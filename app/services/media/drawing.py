"""Drawing what was fetched: a source's body becomes a blob, and the source is ready."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app import clock, logs
from app.errors import ConflictError, PictureError, PicturesUnsupportedError
from app.gateways.media.drawing import DrawingGateway, read_body
from app.gateways.media.sources import SourceGateway
from app.models.media.drawn import MAX_ATTEMPTS
from app.ports import PictureBodies

log = logs.get(__name__)


class SourceDrawingService:
    """Draws the bodies of sources; for workers."""

    def __init__(self, drawing: DrawingGateway, sources: SourceGateway, bodies: PictureBodies) -> None:
        self._drawing, self._sources, self._bodies = drawing, sources, bodies
        #: One line per process says that servers don't share EVENTR_HOME/media.
        self._has_warned = False

    def draw(self, source_id: str, *, token: str, parents: Sequence[str], attempts: int) -> dict[str, Any]:
        """Draw the body of a source; return {"error": word or None}.

        It may run twice, and be killed anywhere: the source and the blob's references change in one
        transaction, on condition that the claim is still valid.

        Args:
            source_id: hexadecimal; also the name of the body.
            token: of this attempt's claim.
            parents: tokens of dead attempts, whose claims this one takes over.
            attempts: earlier attempts that ended with the worker, or took too long.

        Raises:
            StoreError: the stores aren't responding; the job runs again.
        """
        number = bytes.fromhex(source_id)
        source = self._sources.claim_drawing(number, token, clock.now(), parents)
        if source is None:
            return {"error": "left"}
        error = None
        try:
            if attempts >= MAX_ATTEMPTS:
                raise PictureError("crashed")
            body = read_body(self._bodies.get_path(source_id))
            self._drawing.keep(
                body,
                source.purpose,
                lambda session, blob: self._sources.finish(session, number, token, blob, clock.now()),
            )
        except (PictureError, PicturesUnsupportedError) as e:
            error = e.word
            self._sources.record_failure(source, token, error, clock.now())
        except FileNotFoundError:
            if source.home not in (None, self._bodies.home):
                # The updater queues the job again, until a worker of that home takes it. If none does within
                # the hour, the picture is fetched again.
                if not self._has_warned:
                    log.warning("picture_elsewhere", home=source.home)
                self._has_warned = True
                if source.next_at is None or source.next_at > clock.now():
                    self._sources.release_drawing(source, token)
                else:
                    self._sources.record_lost(source, token, clock.now())
                return {"error": "elsewhere"}
            # Someone has emptied the folder; the source is fetched again.
            self._sources.record_lost(source, token, clock.now())
            return {"error": "gone"}
        except ConflictError:
            return {"error": "left"}  # the claim has expired, and someone else draws it
        self._bodies.delete(source_id)
        log.info("picture_drawn", purpose=source.purpose, error=error)
        return {"error": error}
