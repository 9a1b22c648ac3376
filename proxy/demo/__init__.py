"""A graph to try Sparlance with, and what to ask of it."""
