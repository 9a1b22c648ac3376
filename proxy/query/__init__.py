"""Domain: what a query says."""
