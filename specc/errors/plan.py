"""Codes SPC3nn: the plan stage."""

from __future__ import annotations

from typing import Final

from specc.errors.tree import CodeRow, ExitStatus

PLAN: Final[dict[str, CodeRow]] = {
    "SPC301": CodeRow(
        "Known, but not built in this version",
        "The recipe is valid, and specc knows what it asks for, but no code of this version makes it. The message says "
        "what can be used instead.",
    ),
    "SPC302": CodeRow(
        "The back end does not run this scheme there",
        "Schemes are tied to back ends and to the compute capabilities (SM) of GPUs: float16 on a CPU would be float32 "
        "with casts around it, and bfloat16 arithmetic begins with SM 8.0. The catalog holds what was measured.",
    ),
    "SPC303": CodeRow(
        "The back end does not run on this GPU",
        "TensorRT-RTX engines run on SM 7.5, 8.0, 8.6, 8.9, 12.0 and 12.1; data-centre GPUs of SM 9.0 and 10.0 are "
        "served by the back ends tensorrt and tensorrt-llm. The back end onnxruntime runs on the CPU.",
    ),
    "SPC304": CodeRow(
        "The limits do not fit the model",
        "Prompt, generated text and drafted tokens all take positions of the model's context "
        "(max_position_embeddings); beyond it a model was never trained.",
    ),
    "SPC305": CodeRow(
        "The plan does not fit into the GPU's memory",
        "Weights, caches for max_batch rows of the full length, logits, scratch and the libraries' own memory are "
        "counted for one GPU and compared with its data sheet. The changes that are named were tried on that table: "
        "each is enough, the cheapest first. `specc plan` shows every item; docs/planning.md derives them.",
    ),
    "SPC306": CodeRow(
        "The file holds no measured acceptance",
        "A prediction takes counts of proposed, evaluated and accepted drafts by position, as `specc bench` writes "
        "them; docs/statistics.md defines them. A run without a single round says nothing about acceptance.",
    ),
    "SPC307": CodeRow(
        "What the recipe requires is not met",
        "`require` states gates: a predicted speed-up at a batch, and memory of one GPU. They are compared with the "
        "plan, before anything is built, and the speed-up once more with the calls that a build or `specc verify` "
        "measures; the middle of its interval counts.",
        ExitStatus.GATE,
    ),
    "SPC308": CodeRow(
        "Nothing of that name can be compared",
        "`specc plan --compare` varies GPUs, schemes of the target, numbers of drafts or kinds of drafters, as "
        "`gpus=l4,l40s`, `schemes=f16,fp8`, `gamma=1..12` or `drafts=ngram,eagle3`.",
    ),
    "SPC309": CodeRow(
        "Groups of weights do not divide a matrix",
        "Schemes in groups store one scale for each group of neighbours along a matrix's inputs, in whole groups: "
        "kernels of every back end expect them. Without a stated group size the plan takes one that divides.",
    ),
    "SPC310": CodeRow(
        "An override fits no matrix",
        "`overrides` give some matrices another scheme, by class (`head`, `embedding`, `first_layer`, `last_layer`) or "
        "by a pattern over names. One that fits nothing would be a choice without effect.",
    ),
    "SPC320": CodeRow(
        "The tokenizers of draft and target differ",
        "The target judges drafted ids by its own vocabulary, and the draft reads the target's ids: an id must stand "
        "for the same token in both. They are compared token by token. Rows of the embedding beyond the tokenizer are "
        "padding and may differ in number; they are never drafted and never picked.",
    ),
    "SPC321": CodeRow(
        "The draft is the target",
        "Both references lead to the same files, or to a copy: all names, shapes and dtypes of tensors are equal, and "
        "so are the bytes of a few ranges that were compared. A draft as slow as the target cannot speed it up.",
    ),
    "SPC322": CodeRow(
        "The target has no such layers",
        "A draft of kind `self` is the first layers of the target; there must be at least as many.",
    ),
    "SPC323": CodeRow(
        "TensorRT-LLM of that version is not known",
        "Names of fields changed between versions, and one changed its meaning under the same name. specc writes for "
        "the versions whose fields it knows (docs/tensorrt-llm.md), and for no other.",
    ),
    "SPC324": CodeRow(
        "TensorRT-LLM does not take this",
        "Each flow and version has its models, drafters, schemes and dtypes of caches. What would be refused, or be "
        "changed without a word, on the machine with the GPUs is refused while planning.",
    ),
    "SPC325": CodeRow(
        "A draft cannot be drawn from so many ids",
        "`draft.support` is how many of its most probable ids a draft is drawn from under acceptance rejection and "
        "block. Truncated sampling is defined on the `candidates` most probable ids, so more than these are either all "
        "ids or none; engines of a fixed width do not take all.",
    ),
}
