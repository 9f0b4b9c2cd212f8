"""Requests whose answers repeat little of them: where n-gram drafts are mostly wrong."""

from __future__ import annotations

from typing import Final

FREE_PROMPTS: Final = [
    "Write a short story about a lighthouse keeper who finds a bottle on the beach.",
    "Explain why the sky is blue to a child of ten.",
    "What are the advantages and the disadvantages of living in a big city?",
    "Describe how bread is made, from the field to the table.",
    "Give me five ideas for a birthday party in the garden.",
    "Write a poem about the first snow of the year.",
    "How does a bicycle stay upright while it moves?",
    "Tell me about the history of the printing press.",
    "What should I pack for a week of hiking in the mountains?",
    "Compare cats and dogs as pets.",
]
