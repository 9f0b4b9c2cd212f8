"""What executes an engine, one vendor a file."""
