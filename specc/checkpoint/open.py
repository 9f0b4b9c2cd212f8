"""Open a source checkpoint: the one entrance to this package."""

from __future__ import annotations

from pathlib import Path

from specc.catalog.published import fill_text
from specc.checkpoint.chat_template import check_template, template_from_file
from specc.checkpoint.gguf_file import checkpoint_from_gguf, parts_from_gguf
from specc.checkpoint.hf_folder import CONFIG_FILE, checkpoint_from_folder
from specc.checkpoint.hf_tokenizer import TOKENIZER_FILE, parts_from_folder
from specc.checkpoint.reference import FORMS, resolved_from_reference
from specc.checkpoint.source import SourceCheckpoint
from specc.checkpoint.tokenizer_parts import TokenizerParts
from specc.errors import SpeccError

GGUF_SUFFIX = ".gguf"


def source_from_reference(
    uri: str, *, base: Path, revision: str | None, tokenizer: str | None, chat_template: str | None, offline: bool
) -> SourceCheckpoint:
    """Open the checkpoint that a recipe names: configurations and headers are read, tensors are not.

    Args:
        uri: a folder, a .gguf file, package://<python package>/<file>, hf://<org>/<name> or <org>/<name>.
        base: the recipe's folder, where relative paths start.
        revision: branch, tag or commit of a hub repository; None is its default branch.
        tokenizer: reference to take the tokenizer from (a folder, tokenizer.json, or any form of uri), or None.
        chat_template: path of a jinja2 file that replaces the checkpoint's template, or None.
        offline: the hub's local cache is used, never the network.

    Returns:
        The opened checkpoint.

    Raises:
        SpeccError: SPC2nn, whatever is wrong with reference or files.
    """
    found = resolved_from_reference(uri, base=base, revision=revision, offline=offline, weights=True)
    template = None if chat_template is None else template_from_file(base / chat_template)
    parts = None if tokenizer is None else _parts_from_reference(tokenizer, base=base, offline=offline)
    extra = () if chat_template is None else ((base / chat_template).absolute(),)
    if found.path.is_dir():
        if not (found.path / CONFIG_FILE).is_file():
            raise _no_checkpoint(uri, found.path)
        opened = checkpoint_from_folder(
            found.path,
            uri=uri,
            revision=found.revision,
            parts=parts or parts_from_folder(found.path),
            template=template,
        )
    elif found.path.suffix == GGUF_SUFFIX:
        opened = checkpoint_from_gguf(found.path, uri=uri, revision=found.revision, parts=parts, template=template)
    else:
        raise _no_checkpoint(uri, found.path)
    if opened.tokens.chat_template is not None:
        check_template(opened.tokens.chat_template, str(base / chat_template) if chat_template is not None else uri)
    return opened.with_files(extra)


def _parts_from_reference(reference: str, *, base: Path, offline: bool) -> TokenizerParts:
    path = resolved_from_reference(reference, base=base, revision=None, offline=offline, weights=False).path
    if path.suffix == GGUF_SUFFIX and path.is_file():
        return parts_from_gguf(path)
    folder = path.parent if path.name == TOKENIZER_FILE else path
    parts = parts_from_folder(folder) if folder.is_dir() else None
    if parts is None or parts.vocabulary is None:
        raise SpeccError(
            "SPC201",
            reference,
            f"there is no {TOKENIZER_FILE}",
            "the recipe takes the tokenizer from here",
            f"give a folder with {TOKENIZER_FILE}, or a .gguf file",
        )
    return parts


def _no_checkpoint(uri: str, path: Path) -> SpeccError:
    more = ""
    if path.is_dir():
        models = sorted(file.name for file in path.glob("*.gguf"))
        found = f"a folder without {CONFIG_FILE}" + (f"; it has {', '.join(models[:4])}" if models else "")
        more = "" if models else f"; {fill_text(str(path))}"
    else:
        found = "a file that is not .gguf"
    return SpeccError("SPC201", uri, found, "specc cannot tell what the model is", f"give {FORMS}{more}")
