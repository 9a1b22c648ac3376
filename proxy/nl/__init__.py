"""Domain: a question against the index."""
