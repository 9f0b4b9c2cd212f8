"""Drafters, one kind a file."""
