"""Codes SPC7nn: the runtime stage. 701 to 729 are of requests and sessions, 740 to 769 of the runners."""

from __future__ import annotations

from typing import Final

from specc.errors.tree import CodeRow, ExitStatus

RUNTIME: Final[dict[str, CodeRow]] = {
    "SPC701": CodeRow(
        "a request parameter is out of its range",
        "Sampling parameters must be finite and inside the range that the engine defines; the seed selects the noise "
        "of a request and must lie in [0, 2^32). A value outside is refused, never clamped, because clamping would "
        "silently sample from another distribution.",
    ),
    "SPC702": CodeRow(
        "more new tokens than the bundle allows",
        "The bundle's engines and caches were built for `limits.max_output` generated tokens a request.",
    ),
    "SPC703": CodeRow(
        "the prompt is too long",
        "The bundle's engines and caches were built for `limits.max_input` prompt tokens, and prompt and answer "
        "together must fit the model's context, with room for one new token at least.",
    ),
    "SPC704": CodeRow(
        "an empty prompt, and the model has no beginning-of-sequence token",
        "A model predicts the token after the ones it was given; with none, and no token that stands for the "
        "beginning, there is nothing to start from.",
    ),
    "SPC705": CodeRow(
        "a token id outside the vocabulary",
        "Prompt ids index the embedding table; an id outside the tokenizer's vocabulary has no row there.",
    ),
    "SPC706": CodeRow(
        "sampling asked of a greedy bundle",
        "A bundle built with `acceptance: greedy` has no sampling inputs in its engine: it can only take the largest "
        "logit.",
    ),
    "SPC707": CodeRow(
        "gamma outside what the engine was built for",
        "A verify row holds at most `limits.max_gamma` drafts; more do not fit the engine's shapes.",
    ),
    "SPC708": CodeRow(
        "speculation asked of a bundle without a drafter",
        "`draft.kind` of the bundle is `none`, so nothing can be proposed.",
    ),
    "SPC709": CodeRow(
        "text given to a bundle without a tokenizer",
        "Text prompts, stop strings and chats need the bundle's tokenizer; this bundle takes and returns token ids.",
    ),
    "SPC710": CodeRow(
        "the chat cannot be rendered",
        "The bundle has no chat template, or the template refused the messages or failed on them.",
    ),
    "SPC711": CodeRow(
        "the engine requires an input that this runtime does not know",
        "A runtime may fill optional inputs with their neutral value, but a required input changes what the engine "
        "computes; guessing it would give wrong text.",
    ),
    "SPC712": CodeRow(
        "prompts and parameters do not match in number",
        "With a list of parameters each prompt has its own; the two lists must be equally long.",
    ),
    "SPC713": CodeRow(
        "the bundle has no engine that this runtime can execute",
        "A session needs the target engine of the manifest, in a format that one of the runtime's runners loads.",
        ExitStatus.ENVIRONMENT,
    ),
    "SPC714": CodeRow(
        "an unusable stop string",
        "A stop string ends the text where it appears; an empty one appears everywhere.",
    ),
    "SPC716": CodeRow(
        "a prompt that is neither text nor token ids",
        "A prompt is text in Unicode, or a row of whole numbers. Booleans, fractions and bytes are refused rather than "
        "converted, because a converted prompt would be another prompt.",
    ),
    "SPC717": CodeRow(
        "the session is closed",
        "`Session.close()` frees the engine and its caches; a closed session generates nothing more.",
    ),
    "SPC720": CodeRow(
        "the bundle is served by another program",
        "A bundle for TensorRT-LLM holds checkpoints and serving files. `specc inspect` shows it and `specc verify` "
        "compares its files; generating needs TensorRT-LLM on the machine with the GPUs.",
    ),
    "SPC718": CodeRow(
        "the certificate of the bundle is damaged",
        "certificate.json states the measured step costs that choose gamma and the fallback. It was edited, truncated "
        "or written by another version.",
    ),
    "SPC715": CodeRow(
        "the tokenizer of the bundle cannot be loaded",
        "tokenizer.json was written by another version of the tokenizers library, or is damaged.",
        ExitStatus.ENVIRONMENT,
    ),
    "SPC740": CodeRow(
        "ONNX Runtime is not installed",
        "The engines of the bundle are ONNX graphs; the package `onnxruntime` runs them.",
        ExitStatus.ENVIRONMENT,
    ),
    "SPC741": CodeRow(
        "ONNX Runtime cannot load an engine",
        "The graph or its weights are missing or damaged, or the installed ONNX Runtime lacks an operator of opset 24.",
        ExitStatus.ENVIRONMENT,
    ),
}
