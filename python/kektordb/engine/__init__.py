"""The embedded engine: database, collections, readers, writers."""
