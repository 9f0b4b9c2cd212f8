"""The user's YAML: its schema and how it is read."""
