"""Executes bundles: sessions, scheduling, drafting, policies. Ships without the compiler."""
