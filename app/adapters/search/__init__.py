"""The search engine: Tantivy on the local disk, or the engine of another server."""
