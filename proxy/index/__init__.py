"""Domain: what the graph holds."""
