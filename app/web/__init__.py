"""HTTP: a handler parses, calls one service and presents; nothing here decides."""
