"""Passes from the canonical graph to what a back end builds; one pass a file."""
