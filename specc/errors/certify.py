"""Codes SPC8nn: the certify stage."""

from __future__ import annotations

from typing import Final

from specc.errors.tree import CodeRow, ExitStatus

CERTIFY: Final[dict[str, CodeRow]] = {
    "SPC801": CodeRow(
        "speculation changed the text",
        "A bundle must give the same token ids with and without speculation for the same seed. Ids may differ only "
        "where the autoregressive step was near a tie, its two best values closer than the stated epsilon, because "
        "rounding differs between calls of one token and of several; such cases are counted. Here they differ "
        "elsewhere, so the bundle is not published.",
        ExitStatus.GATE,
    ),
    "SPC802": CodeRow(
        "nothing to certify with",
        "A certificate compares generations. The list of prompts that was given is empty: nothing would be compared.",
    ),
    "SPC803": CodeRow(
        "the engine does not compute what its graph says",
        "Logits of the engine are held against those of its own graph, computed in NumPy by the reference "
        "implementation of ONNX, after three tokens of a prompt. They differ by more than rounding explains, so a "
        "kernel or a fusion of the engine's library is wrong on this machine.",
        ExitStatus.GATE,
    ),
    "SPC804": CodeRow(
        "the sampler does not follow its law",
        "What the engine picked is held against the logits of the same steps: temperature, top_k, top_p and min_p give "
        "each id its probability, and the seed decides the pick. Picks differ from it away from near ties, or their "
        "distribution is one that the law would give less than once in a million.",
        ExitStatus.GATE,
    ),
    "SPC805": CodeRow(
        "the engine does not give numbers",
        "Logits are infinite or no numbers (NaN). A weight of the checkpoint is so, as after a broken conversion or a "
        "training run that diverged, and is named then; or activations left the range of their dtype, as those of some "
        "bfloat16 models do in float16. The weights of a draft model are looked at, too: the text is right without "
        "them, but such drafts never are.",
        ExitStatus.GATE,
    ),
    "SPC806": CodeRow(
        "the target moved too far from its reference",
        "`specc verify --against BUNDLE` compares the logits of a quantized target with those of the same model in f32 "
        "on a text: perplexity and greedy ids, with a bound for each width of weights. Speculation reproduces the text "
        "of the target as it is, and a draft trained against the original is accepted less often.",
        ExitStatus.GATE,
    ),
}
