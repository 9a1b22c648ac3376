"""Sparlance: a transparent SPARQL-protocol proxy that also understands plain language."""

__version__ = "0.1.0"
