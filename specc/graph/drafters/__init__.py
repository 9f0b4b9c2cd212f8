"""Draft graphs, one kind a file."""
