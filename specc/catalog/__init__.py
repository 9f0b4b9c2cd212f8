"""Frozen rows of facts, each with its source."""
