"""The HTML report: one page that answers for a plan, or for a bundle, with nothing to load beside it."""
