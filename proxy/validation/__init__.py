"""Domain: a query against the index."""
