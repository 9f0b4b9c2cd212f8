"""Executes bundles: sessions, scheduling, drafting, policies. Ships without the compiler."""

from __future__ import annotations

from specc.runtime.generation import Chunk, Generation
from specc.runtime.params import GenerationParams
from specc.runtime.session import Session

__all__ = ["Chunk", "Generation", "GenerationParams", "Session"]
