"""The schema version of the database, and the numbered migrations from one version to the next.

To add a migration, write ``m0002_….py`` beside ``m0001_…`` with a function ``apply(run)``, and add it to
:data:`.table.MIGRATIONS`. :class:`.run.Run` explains its rules. New indexes need no migration: those of
:mod:`app.mappers.mongo.indexes` are created at each start, after the migrations.
"""
