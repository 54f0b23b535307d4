"""Domain models: frozen dataclasses and pure rules, without stores, sockets or HTTP."""
