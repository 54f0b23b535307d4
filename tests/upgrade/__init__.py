"""Migrations, and upgrades of databases that older versions wrote."""
