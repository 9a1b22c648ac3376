"""HTTP layer: SPARQL 1.1 Protocol."""
