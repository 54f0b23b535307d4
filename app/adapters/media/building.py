"""Builds the media stores that the settings name."""

from __future__ import annotations

from app.adapters.media.disk import DiskStore
from app.adapters.media.shelf import Shelf
from app.adapters.media.store_set import StoreSet
from app.config import Settings
from app.errors import SettingsError
from app.models.media.store_address import StoreAddress, StoreKind, parse_stores
from app.ports import MediaStore

#: Name of the store that is used without EVENTR_MEDIA_STORES.
DEFAULT_NAME = "disk"


def build_stores(settings: Settings) -> StoreSet:
    """Return the stores of these settings. Nothing connects before its first use.

    Raises:
        SettingsError: a store's library isn't installed.
    """
    addresses = parse_stores(settings.media_stores)
    served = next((a.name for a in addresses if a.kind is StoreKind.DISK), "") if settings.media_accel else ""
    stores = [_build(address, settings, is_served=address.name == served) for address in addresses]
    folder = settings.home / "media"
    shelf = None
    if not stores:
        stores = [
            DiskStore(folder / "files", DEFAULT_NAME, has_parents=True, min_free=settings.disk_min_free)
        ]
    if not all(store.is_local for store in stores):
        shelf = Shelf(folder / "shelf", settings.media_shelf_bytes)
    return StoreSet(stores, copies=settings.media_copies, shelf=shelf)


def _build(address: StoreAddress, settings: Settings, *, is_served: bool) -> MediaStore:
    # Only what is needed is loaded.
    if address.kind is StoreKind.DISK:
        return DiskStore(address.folder, address.name, min_free=settings.disk_min_free, is_served=is_served)
    if address.kind is StoreKind.DAV:
        from app.adapters.media.dav import DavStore

        return DavStore(address, timeout=settings.media_store_timeout)
    try:
        from app.adapters.media.s3 import S3Store
    except ImportError as e:
        text = "EVENTR_MEDIA_STORES names an S3 bucket. Install the package with “pip install obstore”."
        raise SettingsError(text, setting="media_stores") from e
    return S3Store(address, timeout=settings.media_store_timeout)
