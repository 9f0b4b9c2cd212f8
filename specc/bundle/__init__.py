"""Everything about the artifact: its files' schemas, digests, the content-addressed store and atomic publishing.

The compiler writes with it and the runtime reads with it, so it depends on the standard library alone.
"""
