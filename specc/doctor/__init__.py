"""Rules that a recipe and its checkpoints must pass; one rule a file."""
