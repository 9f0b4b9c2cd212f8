"""Codes SPC4nn: the lower stage."""

from __future__ import annotations

from typing import Final

from specc.errors.tree import CodeRow, ExitStatus

LOWER: Final[dict[str, CodeRow]] = {
    "SPC401": CodeRow(
        "The checkpoint lacks a weight",
        "The graph of the architecture needs a weight that no file of the checkpoint holds. Usually a download that "
        "did not finish, or a configuration of another model.",
    ),
    "SPC402": CodeRow(
        "A weight has another shape than the configuration implies",
        "The graph takes its shapes from the configuration. Usually a configuration that was edited, or that belongs to"
        " another checkpoint.",
    ),
    "SPC403": CodeRow(
        "The weights cannot be written",
        "Lowering writes the weights beside the graphs, or links the source's files there, and the file system refused."
        " Usually a full disk.",
        ExitStatus.ENVIRONMENT,
    ),
    "SPC404": CodeRow(
        "A weight does not fit float16",
        "A value beyond 65504 would become infinite. bfloat16 has the range of float32.",
    ),
    "SPC405": CodeRow(
        "Factors of one input differ",
        "Matrices that are fused into one product share its input, and what the input is multiplied by: ModelOpt's "
        "exporter makes the factors of queries, keys and values one, another tool may not have.",
    ),
    "SPC410": CodeRow(
        "A file of calibration texts is absent or has no text",
        "Methods awq, gptq and smoothquant, and scales of activations that a checkpoint states, follow from "
        "what goes into each layer while the model reads texts: specc's own, or those of the file that "
        "target.calibration names, parted by lines of three hyphens.",
    ),
    "SPC411": CodeRow(
        "Calibration needs a tokenizer",
        "The texts of calibration become tokens by the target's tokenizer. rtn and mse look at weights alone.",
    ),
}
