"""The speculative configuration of other servers for the pair of a recipe, with what is lost on the way."""
