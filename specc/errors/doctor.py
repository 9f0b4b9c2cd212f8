"""Codes SPC330 to SPC352: what `specc check` finds beside the refusals of other stages."""

from __future__ import annotations

from typing import Final

from specc.errors.tree import CodeRow, ExitStatus

DOCTOR: Final[dict[str, CodeRow]] = {
    "SPC330": CodeRow(
        "The embeddings have different numbers of padding rows",
        "Models of one family often round the rows of their embeddings up to different multiples. Both are cut to the "
        "ids of the common tokenizer; padding is never drafted and never picked.",
    ),
    "SPC331": CodeRow(
        "The tokenizers are of different kinds",
        "Byte-pair encoding, Unigram and WordPiece split text in different ways. Equal sizes mean nothing then, and "
        "specc does not translate between vocabularies.",
    ),
    "SPC332": CodeRow(
        "The chat templates differ",
        "Chats are written by the target's template, and the draft reads the same tokens. A draft that was trained on "
        "another form proposes worse tokens; the text itself does not change.",
    ),
    "SPC333": CodeRow(
        "The draft's context is shorter than the bundle's texts",
        "Positions beyond the draft's context were never trained. There a request decodes autoregressively, so long "
        "texts gain less.",
    ),
    "SPC334": CodeRow(
        "The draft is hardly smaller than the target",
        "Each step costs gamma passes of the draft and one of the target. Published pairs have a draft of a tenth of "
        "the target or less.",
    ),
    "SPC335": CodeRow(
        "The target's precision is aggressive",
        "Speculation reproduces what the quantized target says, not what the original would have said. With weights "
        "of 4 bits a plain step is also so cheap that verification hides less. A draft may be as coarse as it likes: "
        "its precision moves acceptance alone.",
    ),
    "SPC336": CodeRow(
        "Rows or widths that do not follow from each other",
        "Either the tokenizer has ids beyond the embedding, or the heads' total width differs from the hidden size. "
        "The second is right for several families; specc uses the stated head_dim.",
    ),
    "SPC337": CodeRow(
        "A drafter is not of the kind that the recipe says",
        "Heads such as EAGLE-3, DFlash, Medusa or native multi-token prediction draft from the target's hidden states "
        "and have no layers of their own to read text with, as a draft model has. Names of tensors tell what they are.",
    ),
    "SPC338": CodeRow(
        "The head does not say which layers it listens to",
        "A head that reads the wrong layers drafts nonsense: the text stays right and acceptance falls to almost "
        "nothing, silently. The published defaults differ between engines by one layer, so specc does not guess.",
    ),
    "SPC339": CodeRow(
        "The head's projection does not fit the target",
        "Its input must be as wide as the hidden states of all its tap layers together.",
    ),
    "SPC340": CodeRow(
        "The head's own vocabulary contradicts itself",
        "draft_vocab_size, the rows of lm_head and the entries of d2t are one number, and every id plus its offset in "
        "d2t is an id of the target, each a different one.",
    ),
    "SPC341": CodeRow(
        "A block drafter without a usable mask token",
        "DFlash and DSpark fill the block with a mask token that is embedded by the target's table.",
    ),
    "SPC342": CodeRow(
        "Gamma is larger than can be used",
        "Drafts behind a request's last token are thrown away, and the last of many drafts is rarely reached.",
    ),
    "SPC343": CodeRow(
        "The GPU does not run this scheme under that back end",
        "8-bit floats begin with SM 8.9, 4-bit floats with SM 10.0, bfloat16 with SM 8.0.",
    ),
    "SPC344": CodeRow(
        "TensorRT-LLM of that version has no engine flow",
        "Version 1.3.0rc21 removed trtllm-build, the model classes and the runtime of engines. What is left serves "
        "checkpoints through PyTorch: flow `serve` writes what it loads.",
    ),
    "SPC345": CodeRow(
        "The model cannot be split over that many GPUs",
        "Tensor parallelism gives each GPU the same number of query heads, of key-value heads (or repeats each of them "
        "equally often) and of inner columns, in whole groups of a quantized scheme.",
    ),
    "SPC346": CodeRow(
        "The vocabulary is padded for tensor parallelism",
        "The head's rows are split evenly over the GPUs, so it gets rows that no token has. They are never picked.",
    ),
    "SPC347": CodeRow(
        "This machine does not hold the build",
        "Weights are written once in the form that graphs read unless the checkpoint's own bytes serve, and engines of "
        "TensorRT hold them again; its builder keeps them in memory twice.",
        ExitStatus.ENVIRONMENT,
    ),
    "SPC348": CodeRow(
        "The cache's dtype does not suit the weights",
        "trtllm-build turns use_paged_context_fmha off without a word for int8 caches, and for fp8 caches beside "
        "weights that are not fp8, nvfp4 or w4a8; reuse of prefixes and verification of drafts rest on it. "
        "trtllm-serve attends over fp8 caches in fp8, for which such weights have no scale.",
    ),
    "SPC349": CodeRow(
        "The tensors were not compared",
        "A configuration lies there without weights: sizes and tokenizers were checked, tensors were not.",
    ),
    "SPC350": CodeRow(
        "Drafts are drawn from fewer ids than the text",
        "Under acceptance rejection and block a draft is drawn from its most probable ids, `draft.support` of them. "
        "Without truncation, hot sampling takes many tokens from beyond these, and each ends the accepted drafts.",
    ),
    "SPC351": CodeRow(
        "This version of TensorRT is reported to fail on such engines",
        "`specc/catalog/known_bad.py` lists reports by version, SM and precision, each with its source. They are not "
        "measurements of specc's: a build goes on, and what comes out should be held against a reference.",
    ),
    "SPC352": CodeRow(
        "A stored head overrules the flag that ties it",
        "config.json says that the embedding is the head, and the checkpoint holds a head of its own. Tensors decide: "
        "the stored head is used, as transformers 5 does; an embedding in its place would give other text.",
    ),
}
