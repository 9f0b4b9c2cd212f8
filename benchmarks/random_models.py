"""Bundles of random models in other shapes than SmolLM2's: what the cost model of CPUs was not made from.

    python benchmarks/random_models.py build/random

Each folder gets a checkpoint and one recipe a scheme; they are built unchecked, since random logits make no text.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Final

from tokenizers import Tokenizer

from specc.cli.main import status_from_arguments
from tests.tiny_models import BYTES, TinyLlama, byte_tokenizer, llama_folder

LONGEST: Final = 4096
SHAPES: Final = {
    # Wider than SmolLM2 and shallower, with a head of its own.
    "wide": TinyLlama(32000, 1024, 2816, 12, 16, 4, 64, LONGEST),
    # As wide as models of a billion weights; every query head has keys and values of its own.
    "billion": TinyLlama(16000, 2048, 5632, 6, 16, 16, 128, LONGEST),
    # So small that the last cache nearly holds it, with many layers.
    "narrow": TinyLlama(8000, 384, 1024, 20, 6, 2, 64, LONGEST, tie_word_embeddings=True),
    # A head that is half of the model.
    "head": TinyLlama(64000, 768, 2048, 16, 12, 12, 64, LONGEST, tie_word_embeddings=True),
}
SCHEMES: Final = {"f32": "f32", "w8": "w8a16", "w4": "{name: w4a16, method: rtn}"}
RECIPE: Final = """\
recipe: 1
name: {name}
target:
  model: {model}
  scheme: {scheme}
draft: {{kind: ngram}}
gamma: {{max: 8, default: 5}}
gpu: cpu
certify: off
limits: {{max_batch: 4, max_input: 1024, max_output: 1024}}
"""


def padded_tokenizer(vocab_size: int) -> Tokenizer:
    """Return the tests' tokenizer of bytes with words that no text has, up to the size of the vocabulary."""
    stated = json.loads(byte_tokenizer().to_str())
    words = stated["model"]["vocab"]
    words |= {f"word {index}": index for index in range(BYTES + 3, vocab_size)}
    return Tokenizer.from_str(json.dumps(stated))


def main() -> None:
    """Make checkpoints, and build what is not there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shapes", nargs="+", choices=tuple(SHAPES), default=list(SHAPES))
    parser.add_argument("--schemes", nargs="+", choices=tuple(SCHEMES), default=list(SCHEMES))
    options = parser.parse_args()
    for shape in options.shapes:
        model = options.folder / shape / "model"
        if not (model / "tokenizer.json").exists():
            llama_folder(model, SHAPES[shape])
            padded_tokenizer(SHAPES[shape].vocab_size).save(str(model / "tokenizer.json"))
        for scheme in options.schemes:
            name, recipe = f"{shape}-{scheme}", options.folder / shape / f"{scheme}.yaml"
            recipe.write_text(RECIPE.format(name=name, model=model.resolve(), scheme=SCHEMES[scheme]))
            if status_from_arguments(["build", str(recipe), "--out", str(options.folder)]) != 0:
                raise SystemExit(f"{name} was not built")


if __name__ == "__main__":
    main()
