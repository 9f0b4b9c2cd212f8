"""Codes SPC2nn: the checkpoint stage."""

from __future__ import annotations

from typing import Final

from specc.errors.tree import CodeRow, ExitStatus

CHECKPOINT: Final[dict[str, CodeRow]] = {
    "SPC201": CodeRow(
        "The model reference leads to no checkpoint",
        "A model reference is a folder with config.json, a .gguf file, package://<python package>/<file>, "
        "hf://<org>/<name> or <org>/<name>. Relative paths start at the recipe's folder.",
    ),
    "SPC202": CodeRow(
        "The Python package of a package:// reference is not installed",
        "The reference names a file inside an installed Python package. specc finds the package without importing it.",
        ExitStatus.ENVIRONMENT,
    ),
    "SPC203": CodeRow(
        "An optional library is needed",
        "Reading GGUF files needs the extra [gguf], fetching from the hub the extra [hub].",
        ExitStatus.ENVIRONMENT,
    ),
    "SPC204": CodeRow(
        "The hub refuses the model",
        "The repository or revision does not exist, is private or gated, or lacks a file that a checkpoint must have.",
    ),
    "SPC205": CodeRow(
        "The hub cannot be reached, or the local cache lacks the model",
        "With --offline only files that the hub's local cache already holds are used.",
        ExitStatus.ENVIRONMENT,
    ),
    "SPC206": CodeRow(
        "A file of the checkpoint cannot be read",
        "The file is missing, is too large for its kind, has no permission, or changed since its header was read.",
        ExitStatus.ENVIRONMENT,
    ),
    "SPC210": CodeRow(
        "A configuration file is damaged",
        "The file is not JSON, or a key that specc needs is missing or has a value of the wrong type or range.",
    ),
    "SPC211": CodeRow(
        "Unknown architecture",
        "specc builds its own graphs, one per family. `specc list families` prints the families.",
    ),
    "SPC212": CodeRow(
        "A model with a feature that specc cannot build",
        "A kind of rotary scaling, of layer or of activation, or an option of the configuration would change the "
        "model's numbers; or the model is of a kind that specc does not build: encoder-decoder, multimodal, with "
        "recurrent layers or with latent attention. specc refuses it by name rather than to ignore it.",
    ),
    "SPC213": CodeRow(
        "The tensors do not fit the configuration",
        "A tensor is missing, has another shape than the configuration implies, or is one the graph would not use. "
        "Usually the download is incomplete or config.json belongs to another model.",
    ),
    "SPC220": CodeRow(
        "A safetensors file is damaged",
        "The header is truncated, is not JSON, or its offsets overlap, leave gaps or pass the end of the file.",
    ),
    "SPC221": CodeRow(
        "The shards do not fit their index",
        "model.safetensors.index.json names a shard or tensor that is not there, or two shards hold one tensor.",
    ),
    "SPC222": CodeRow(
        "A tensor's encoding cannot be read as numbers",
        "specc reads f32, f16 and bf16 from safetensors, quantized layers as their configuration describes them, and "
        "from GGUF nineteen block encodings more.",
    ),
    "SPC223": CodeRow(
        "A tensor holds numbers that are not finite",
        "An infinity or NaN in a weight makes every output NaN. Usually the file is damaged.",
    ),
    "SPC224": CodeRow(
        "A quantized checkpoint in a layout that specc does not read",
        "specc reads AutoAWQ (gemm), GPTQ (versions 1 and 2, 4 and 8 bits), compressed-tensors (pack-quantized, "
        "int-quantized, float-quantized, nvfp4-pack-quantized), ModelOpt (FP8, NVFP4, W4A16_AWQ), fp8 in blocks of 128 "
        "by 128 and GGUF. Others, bitsandbytes among them, are refused by name: a guess would be another model.",
    ),
    "SPC230": CodeRow(
        "A GGUF file is damaged",
        "The header is truncated, has another magic or version, states impossible counts, or its tensors overlap or "
        "pass the end of the file.",
    ),
    "SPC240": CodeRow(
        "The tokenizer is damaged or contradicts itself",
        "tokenizer.json, tokenizer_config.json and the token lists of a GGUF must agree with each other.",
    ),
    "SPC241": CodeRow(
        "A kind of tokenizer that specc cannot rebuild",
        "specc reads tokenizer.json, and from GGUF files the byte-level BPE and SentencePiece kinds it knows by name: "
        "a guess would split text differently from the way the model was trained.",
    ),
    "SPC242": CodeRow(
        "The chat template cannot be used",
        "The template's file is missing, not text or not jinja2, or the checkpoint has several and none is `default`.",
    ),
    "SPC243": CodeRow(
        "A special token id lies outside the vocabulary",
        "Beginning and end-of-sequence ids must be rows of the embedding; others mean that the configuration or the "
        "tokenizer belongs to another model.",
    ),
}
