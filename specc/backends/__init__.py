"""Builders of engines; the registry is a literal dict."""
