"""Hooks for checks of your own."""
