"""Prompts for a certificate when the user gives none: copying, code, lists, arithmetic, dialogue, prose.

Repetition makes an n-gram drafter propose, plain prose makes it fail; both paths must give the text of AR decoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from specc.bundle.drafts import ModelDraftSpec
from specc.certify.prompt_file import PromptInput, ids_from_input
from specc.runtime.request import prompt_from_ids
from specc.runtime.session import Session

RANDOM_PROMPTS: Final = 6
BUNDLED_PROMPTS: Final[tuple[str, ...]] = (
    "Repeat the following words and change every apple to a pear: apple, plum, apple, fig, apple, lime, apple.\n",
    "The quick brown fox jumps over the lazy dog. The quick brown fox jumps over the lazy dog. The quick brown",
    "def area(width, height):\n    return width * height\n\n\ndef perimeter(width, height):\n    return",
    'Turn these names into JSON: Ada, Alan, Grace.\n[{"name": "Ada"}, {"name":',
    "1 + 1 = 2\n2 + 2 = 4\n4 + 4 = 8\n8 + 8 =",
    "Q: What is the capital of France?\nA: Paris.\nQ: What is the capital of Italy?\nA:",
    "Write a short letter to a neighbour whose cat sleeps in your garden every afternoon.",
    "Die Sonne scheint, und die Vögel singen im Garten. Am Nachmittag",
)


def prompt_ids(session: Session, prompts: Sequence[PromptInput] | None) -> list[list[int]]:
    """Return prompts in token ids.

    Args:
        session: of the bundle.
        prompts: texts, ids or chats, taken as a request takes them; None takes the bundled ones, or random ids for a
            bundle without a tokenizer, cut to what the bundle accepts, and every other one to half of what its draft
            model reads: a prompt beyond the draft's context is never drafted for.

    Raises:
        SpeccError: SPC703 to SPC705 a prompt that a request would be refused for; SPC709 a text for a bundle without a
            tokenizer, SPC710 a chat for one without a template.
    """
    if prompts is not None:
        return [
            list(prompt_from_ids(ids_from_input(session, prompt), session.manifest, f"prompts[{index}]"))
            for index, prompt in enumerate(prompts)
        ]
    limits, draft = session.manifest.limits, session.manifest.draft
    longest = min(limits.max_input, limits.max_length - 1)
    drafted = max(1, draft.context // 2) if isinstance(draft, ModelDraftSpec) else longest
    if session.manifest.tokenizer is None:
        made = random_prompts(session.manifest.model.vocab_size, longest)
    else:
        made = [session.ids_from_text(text)[:longest] for text in BUNDLED_PROMPTS]
    return [ids if index % 2 else ids[:drafted] for index, ids in enumerate(made)]


def random_prompts(vocab_size: int, longest: int) -> list[list[int]]:
    """Return prompts of random token ids, for bundles without a tokenizer: half of them repeat themselves.

    Args:
        vocab_size: ids are below it.
        longest: most tokens of a prompt, at least 1.
    """
    rng = np.random.default_rng(0)
    prompts = []
    for index in range(RANDOM_PROMPTS):
        length = int(rng.integers(1, min(longest, 48) + 1))
        period = max(1, length // 4) if index % 2 == 0 else length
        passage = rng.integers(0, vocab_size, period)
        prompts.append([int(passage[i % period]) for i in range(length)])
    return prompts
