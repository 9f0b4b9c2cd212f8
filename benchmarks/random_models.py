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
from tests.cpu_readings import RANDOM_SHAPES
from tests.tiny_models import BYTES, byte_tokenizer, llama_folder

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
    parser.add_argument("--shapes", nargs="+", choices=tuple(RANDOM_SHAPES), default=list(RANDOM_SHAPES))
    parser.add_argument("--schemes", nargs="+", choices=tuple(SCHEMES), default=list(SCHEMES))
    options = parser.parse_args()
    for shape in options.shapes:
        model = options.folder / shape / "model"
        if not (model / "tokenizer.json").exists():
            llama_folder(model, RANDOM_SHAPES[shape])
            padded_tokenizer(RANDOM_SHAPES[shape].vocab_size).save(str(model / "tokenizer.json"))
        for scheme in options.schemes:
            name, recipe = f"{shape}-{scheme}", options.folder / shape / f"{scheme}.yaml"
            recipe.write_text(RECIPE.format(name=name, model=model.resolve(), scheme=SCHEMES[scheme]))
            if status_from_arguments(["build", str(recipe), "--out", str(options.folder)]) != 0:
                raise SystemExit(f"{name} was not built")


if __name__ == "__main__":
    main()
