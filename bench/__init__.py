"""Benchmarks: ``python -m bench [names…]``. Each module here registers its figures, see ``bench.harness``."""
