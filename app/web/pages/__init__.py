"""The pages: one module per group, each with a blueprint."""

from __future__ import annotations

from flask import Blueprint

from app.web.api.rest import bp as rest
from app.web.api.rest.docs import bp as restdocs
from app.web.api.rest.uploads import bp as rest_uploads
from app.web.api.rest.uploads import contents as rest_contents
from app.web.assets.static_files import bp as static_files
from app.web.pages.abuse_report import bp as report
from app.web.pages.account import bp as account
from app.web.pages.add import bp as add
from app.web.pages.admin import bp as admin
from app.web.pages.api import bp as api
from app.web.pages.apps import bp as apps
from app.web.pages.attachments import bp as attachments
from app.web.pages.avatars import bp as avatars
from app.web.pages.check import bp as check
from app.web.pages.comments import bp as talk
from app.web.pages.devices import bp as devices
from app.web.pages.discover import bp as discover
from app.web.pages.event_stream import bp as live
from app.web.pages.feeds import bp as feeds
from app.web.pages.files import bp as files
from app.web.pages.folders import bp as folders
from app.web.pages.hub import bp as hub
from app.web.pages.imports import bp as imports
from app.web.pages.installation import bp as installation
from app.web.pages.keyboard import bp as keys
from app.web.pages.lists import bp as lists
from app.web.pages.mark import bp as mark
from app.web.pages.new_password import bp as new_password
from app.web.pages.notes import bp as notes
from app.web.pages.notifications import bp as notifications
from app.web.pages.packs import bp as packs
from app.web.pages.page_lists import bp as page_lists
from app.web.pages.people import bp as people
from app.web.pages.pictures import bp as pictures
from app.web.pages.playback import bp as playback
from app.web.pages.public import bp as public
from app.web.pages.read import bp as read
from app.web.pages.rules import bp as rules
from app.web.pages.saved import bp as saved
from app.web.pages.search import bp as search
from app.web.pages.sending import bp as sending
from app.web.pages.settings import bp as settings
from app.web.pages.share import bp as share
from app.web.pages.shared import bp as shared
from app.web.pages.sharedfeeds import bp as sharedfeeds
from app.web.pages.sign_in import bp as sign_in
from app.web.pages.statistics import bp as statistics
from app.web.pages.stream_feeds import bp as stream_feeds
from app.web.pages.stream_views import bp as look
from app.web.pages.subscriptions import bp as subscriptions
from app.web.pages.tags import bp as tags
from app.web.pages.uploads import bp as uploads
from app.web.pages.websub import bp as websub

BLUEPRINTS: tuple[Blueprint, ...] = (
    static_files,
    pictures,
    public,
    installation,
    sign_in,
    new_password,
    read,
    look,
    lists,
    mark,
    share,
    discover,
    add,
    feeds,
    folders,
    imports,
    packs,
    page_lists,
    people,
    report,
    notes,
    saved,
    search,
    tags,
    rules,
    sending,
    playback,
    subscriptions,
    settings,
    files,
    avatars,
    attachments,
    account,
    admin,
    keys,
    api,
    live,
    talk,
    notifications,
    devices,
    apps,
    check,
    websub,
    shared,
    sharedfeeds,
    statistics,
    stream_feeds,
    hub,
    uploads,
    rest_uploads,
    rest_contents,
    rest,
    restdocs,
)
