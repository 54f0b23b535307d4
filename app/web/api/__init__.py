"""The APIs for programs: the protocols of native apps, and Eventr's own REST API."""
