"""Checks a bundle by running it: parity and step costs."""
