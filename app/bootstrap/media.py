"""Builds the services of media."""

from __future__ import annotations

from app import config
from app.adapters.media.bodies import DiskBodies
from app.adapters.media.staging import FolderStaging
from app.bootstrap.base import Base
from app.gateways.media.avatars import AvatarGateway
from app.gateways.media.drawing import DrawingGateway
from app.gateways.media.feed_icons import FeedIconGateway
from app.gateways.media.mending import MendingGateway
from app.models.media.addresses import MediaKeys
from app.models.media.drawn import DrawingLimits
from app.ports import PictureDrawer
from app.runtime.lazy import lazy
from app.services.later import LaterKind
from app.services.media.avatars import AvatarService
from app.services.media.cleaning import MediaCleaningService
from app.services.media.drawing import SourceDrawingService
from app.services.media.feed_icons import FeedIconService
from app.services.media.fetching import PictureFetcher
from app.services.media.files import FileService
from app.services.media.icons import IconService
from app.services.media.mending import MendingService
from app.services.media.picture_uploads import PictureUploads
from app.services.media.pictures import PictureService
from app.services.media.possession import PossessionService
from app.services.media.sealing import SealingService
from app.services.media.thumbs import ThumbService
from app.services.media.upkeep import UpkeepService
from app.services.media.uploads import FLUSH, UploadService, make_flush_job


class MediaServices(Base):
    """The services of media."""

    @lazy
    def upload_staging(self) -> FolderStaging:
        """The files of uploads in progress."""
        return FolderStaging(self.settings.home / "media" / "up")

    @lazy
    def uploads(self) -> UploadService:
        """Uploads in progress."""
        return UploadService(
            uploads=self.gateways.uploads,
            staging=self.upload_staging,
            jobs=self.jobs,
            later=self.later,
            limiter=self.limiter,
            free_space=self.free_space,
            settings=self.settings,
        )

    @lazy
    def sealing(self) -> SealingService:
        """Turning complete uploads into files; for workers."""
        return SealingService(self.gateways.uploads, self.upload_staging, self.drawing)

    @lazy
    def upload_upkeep(self) -> UpkeepService:
        """Maintenance of uploads; for workers and the updater."""
        return UpkeepService(self.uploads, self.picture_uploads, self.gateways.quota)

    @lazy
    def files(self) -> FileService:
        """Users' files and storage."""
        g = self.gateways
        return FileService(
            files=g.files,
            blobs=g.blobs,
            avatars=self.avatar_gateway,
            quota=g.quota,
            limiter=self.limiter,
            settings=self.settings,
        )

    @lazy
    def possession(self) -> PossessionService:
        """Files of others that a user proves to have."""
        g = self.gateways
        return PossessionService(
            files=g.files, blobs=g.blobs, quota=g.quota, limiter=self.limiter, settings=self.settings
        )

    @property
    def upload_kinds(self) -> tuple[LaterKind, ...]:
        """The delayed tasks of uploads."""
        return (LaterKind(FLUSH, make_flush_job, lambda now: self.uploads.find_flushes(now)),)

    @lazy
    def media_cleaning(self) -> MediaCleaningService:
        """Deletion of pictures and files that nothing needs; for workers, the updater and admins."""
        return MediaCleaningService(
            self.gateways.media_cleaning, self.gateways.quota, self.media_stores, self.jobs, self.settings
        )

    @lazy
    def media_mending(self) -> MendingService:
        """Repair of media stores; for workers and the updater."""
        return MendingService(MendingGateway(self.mappers.media_mending, self.media_stores))

    @lazy
    def picture_bodies(self) -> DiskBodies:
        """Pictures that wait to be drawn."""
        return DiskBodies(self.settings.home / "media" / "in")

    @lazy
    def drawer(self) -> PictureDrawer:
        """What draws pictures; only for workers, because the library takes 20 MB."""
        from app.adapters.media.drawing import PillowDrawer

        s = self.settings
        return PillowDrawer(
            DrawingLimits(
                pixels=s.picture_pixels,
                side=s.picture_side,
                animation_pixels=s.picture_animation_pixels,
                animation_seconds=s.picture_animation_seconds,
            )
        )

    @lazy
    def drawing(self) -> DrawingGateway:
        """Drawing pictures, each once."""
        return DrawingGateway(self.store, self.gateways.blobs, lambda: self.drawer)

    @lazy
    def source_drawing(self) -> SourceDrawingService:
        """Drawing pictures that were fetched; for workers."""
        return SourceDrawingService(self.drawing, self.gateways.sources, self.picture_bodies)

    @lazy
    def avatar_gateway(self) -> AvatarGateway:
        """The files that are people's pictures."""
        m, g = self.mappers, self.gateways
        return AvatarGateway(
            store=self.store,
            users=m.users,
            profiles=m.profiles,
            shared_feeds=m.shared_feeds,
            files=g.files,
            blobs=g.blobs,
            drawing=self.drawing,
        )

    @lazy
    def avatars(self) -> AvatarService:
        """Pictures of people."""
        return AvatarService(
            self.avatar_gateway,
            self.gateways.blobs,
            self.picture_uploads,
            limiter=self.limiter,
            per_hour=self.settings.avatars_per_hour,
        )

    @lazy
    def picture_uploads(self) -> PictureUploads:
        """Pictures that someone uploads with a form."""
        return PictureUploads(
            self.picture_bodies,
            self.jobs,
            self.free_space,
            is_supported=config.can_draw(),
            wait=self.settings.picture_wait,
        )

    @lazy
    def feed_icons(self) -> FeedIconService:
        """Icons that administrators upload for feeds."""
        g = FeedIconGateway(self.store, self.mappers.icons, self.gateways.files, self.drawing)
        return FeedIconService(g, self.picture_uploads, self.jobs, self.limiter, self.settings.icons_per_hour)

    @lazy
    def picture_fetcher(self) -> PictureFetcher:
        """Fetching pictures and icons; for workers."""
        g = self.gateways
        return PictureFetcher(
            g.sources,
            g.blobs,
            self.picture_bodies,
            self.jobs,
            budget=self.budget,
            fetch_budget=self.fetch_budget,
            free_space=self.free_space,
            settings=self.settings,
        )

    @lazy
    def icons(self) -> IconService:
        """Icons of feeds."""
        g = self.gateways
        return IconService(
            icons=g.icons,
            sources=g.sources,
            blobs=g.blobs,
            pictures=self.picture_fetcher,
            jobs=self.jobs,
            limiter=self.limiter,
            per_hour=self.settings.icons_per_hour,
        )

    @lazy
    def pictures(self) -> PictureService:
        """Pictures of other sites."""
        g, s = self.gateways, self.settings
        keys = MediaKeys.create(s.media_keys, s.secret_key)
        return PictureService(
            sources=g.sources,
            blobs=g.blobs,
            pictures=self.picture_fetcher,
            jobs=self.jobs,
            limiter=self.limiter,
            keys=keys,
            settings=s,
        )

    @lazy
    def thumbs(self) -> ThumbService:
        """Small pictures of new entries."""
        g = self.gateways
        return ThumbService(
            readers=g.card_readers,
            pictures=self.pictures,
            jobs=self.jobs,
            settings=self.settings,
        )
