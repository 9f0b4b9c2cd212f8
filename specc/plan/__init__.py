"""From a recipe and source headers to every decision of the build."""
