"""Blocks of decoder layers."""
