"""Builds the services of reading."""

from __future__ import annotations

from app.bootstrap.entries import EntryServices
from app.bootstrap.media import MediaServices
from app.bootstrap.notifications import NotificationServices
from app.runtime.lazy import lazy
from app.services.reading.ahead import AheadService
from app.services.reading.auto_read import AutoReadService
from app.services.reading.copy_marks import CopyMarks
from app.services.reading.hiding import HidingService
from app.services.reading.indexing import IndexService, StandbyService
from app.services.reading.marking import MarkingService
from app.services.reading.mass_marks import MassMarks
from app.services.reading.notes import NoteService
from app.services.reading.playback import PlaybackService
from app.services.reading.reading import ReadingService
from app.services.reading.rule_runner import RuleRunner
from app.services.reading.rule_runs import RuleRunService
from app.services.reading.rules import RuleService
from app.services.reading.saved_pages import SavedPageService
from app.services.reading.search import EntrySearch
from app.services.reading.search_suggestions import SearchSuggestions
from app.services.reading.statistics import StatisticsService
from app.services.reading.stories import StoryService
from app.services.reading.stream_views import StreamViewService
from app.services.reading.tags import TagService
from app.services.reading.wider_searches import WiderSearches


class ReadingServices(EntryServices, NotificationServices, MediaServices):
    """The services of reading."""

    @lazy
    def finder(self) -> EntrySearch:
        """Searches, listed like streams."""
        g, patience = self.gateways, self.settings.search_patience
        return EntrySearch(self.search, g.subscriptions, g.streams, g.folders, g.tags, time_limit=patience)

    @lazy
    def search_suggestions(self) -> SearchSuggestions:
        """Completions and corrections of the names in a search."""
        g = self.gateways
        return SearchSuggestions(g.subscriptions, g.streams, g.folders, g.tags)

    @lazy
    def wider_searches(self) -> WiderSearches:
        """What a search that found nothing would find without one of its parts."""
        return WiderSearches(self.reading)

    @lazy
    def reading(self) -> ReadingService:
        """Counts, streams, articles, marks."""
        g, s = self.gateways, self.settings
        return ReadingService(
            accounts=g.accounts,
            subscriptions=g.subscriptions,
            read_marks=g.read_marks,
            feeds=g.feeds,
            folders=g.folders,
            entries=g.entries,
            streams=g.streams,
            tags=g.tags,
            entry_search=self.finder,
            grouping=g.grouping,
            full_texts=g.full_texts,
            stories=self.stories,
            mass_marks=self.mass_marks,
            changes=g.changes,
            recent_reads=g.recent_reads,
            statistics=g.statistics,
            ranking=g.ranking,
            notes=g.notes,
            sending=self.sending,
            hiding=g.hiding,
            events=self.events,
            page_size=s.page_size,
            whole_size=s.whole_page_size,
            whole_max=s.whole_text_max,
            snapshot_ttl=s.snapshot_ttl,
            tree_cache=s.tree_cache,
        )

    @lazy
    def stories(self) -> StoryService:
        """Copies of one article in several feeds."""
        g = self.gateways
        return StoryService(g.stories, g.grouping, g.entries, g.accounts, g.subscriptions)

    @lazy
    def hiding(self) -> HidingService:
        """Entries that people hide by hand."""
        g, undo_ttl = self.gateways, self.settings.undo_ttl
        return HidingService(
            *(g.hiding, g.entries, self.stories, g.accounts, g.changes), events=self.events, undo_ttl=undo_ttl
        )

    @lazy
    def auto_read(self) -> AutoReadService:
        """Marks of entries whose days are over; for workers and the updater."""
        g = self.gateways
        return AutoReadService(g.auto_read, g.accounts, self.mass_marks, self.jobs)

    @lazy
    def ahead(self) -> AheadService:
        """Pictures that people will probably see next."""
        return AheadService(
            accounts=self.gateways.accounts,
            reading=self.reading,
            stream_views=self.stream_views,
            pictures=self.pictures,
            jobs=self.jobs,
            settings=self.settings,
        )

    @lazy
    def mass_marks(self) -> MassMarks:
        """Marks of many entries at once, and their undo."""
        g = self.gateways
        return MassMarks(
            g.read_marks,
            g.feeds,
            g.changes,
            g.undo_history,
            self.events,
            stories=self.stories,
            copy_marks=self.copy_marks,
            undo_ttl=self.settings.undo_ttl,
        )

    @lazy
    def copy_marks(self) -> CopyMarks:
        """Marks of the copies of what a mass mark has read."""
        g = self.gateways
        return CopyMarks(
            self.stories,
            g.entries,
            g.read_marks,
            g.accounts,
            jobs=self.jobs,
            events=self.events,
            undo_ttl=self.settings.undo_ttl,
        )

    @lazy
    def marking(self) -> MarkingService:
        """Marks above and below an entry, and the history of actions that can be undone."""
        g, s = self.gateways, self.settings
        return MarkingService(
            self.mass_marks,
            g.streams,
            self.finder,
            g.entries,
            g.undo_history,
            limit=s.mark_range_max,
            history_rows=s.history_rows,
            undo_ttl=s.undo_ttl,
        )

    @lazy
    def stream_views(self) -> StreamViewService:
        """The view of each stream."""
        return StreamViewService(self.gateways.stream_views)

    @lazy
    def statistics(self) -> StatisticsService:
        """What a user has read, starred and shared, by day."""
        return StatisticsService(self.gateways.statistics, self.gateways.accounts)

    @lazy
    def playback(self) -> PlaybackService:
        """Positions in recordings, and the sites that may send them."""
        return PlaybackService(self.gateways.playback, self.gateways.accounts)

    @lazy
    def rules(self) -> RuleService:
        """Rules of users, and their previews."""
        g, s = self.gateways, self.settings
        return RuleService(
            g.rules,
            g.folders,
            g.feeds,
            self.search,
            limit=s.rules_max,
            patterns=s.rule_patterns_max,
            tag_length=s.tag_length,
        )

    @lazy
    def rule_runner(self) -> RuleRunner:
        """Rules on new entries; for workers and the updater."""
        return RuleRunner(
            self.gateways.rules,
            self.events,
            self.notifier.notify_rule,
            self.notifier.notify_search,
            request_texts=self.full_texts.request_matches,
            send=self.sending.request_all,
        )

    @lazy
    def rule_runs(self) -> RuleRunService:
        """Runs of rules over past entries; for workers and the updater, too."""
        g = self.gateways
        return RuleRunService(
            g.rule_runs,
            g.rules,
            self.jobs,
            self.events,
            self.search,
            request_texts=self.full_texts.request_matches,
        )

    @lazy
    def tags(self) -> TagService:
        """Tags and saved searches."""
        g, s = self.gateways, self.settings
        return TagService(g.tags, g.rules, g.entries, g.changes, self.events, max_length=s.tag_length)

    @lazy
    def notes(self) -> NoteService:
        """Notes and highlights."""
        g = self.gateways
        return NoteService(g.notes, g.entries, g.changes, undo_ttl=self.settings.undo_ttl)

    @lazy
    def saved_pages(self) -> SavedPageService:
        """Pages that people save to read them later."""
        g, s = self.gateways, self.settings
        return SavedPageService(
            g.saved_pages,
            self.reading,
            self.jobs,
            self.events,
            limiter=self.limiter,
            per_hour=s.saves_per_hour,
            undo_ttl=s.undo_ttl,
        )

    @lazy
    def indexing(self) -> IndexService:
        """Updates of the search index; for workers and the updater."""
        return IndexService(self.gateways.indexing, self.search_index)

    @lazy
    def standby(self) -> StandbyService:
        """Updates of the standby index; for ``eventr search standby``."""
        return StandbyService(self.gateways.standby, self.search_index)
