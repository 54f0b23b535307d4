"""HTTP: a handler parses the request, calls one service and presents the result; it makes no decisions."""
