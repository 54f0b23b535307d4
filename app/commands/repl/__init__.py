"""The REPL of the command line, which controls a running queue manager."""
