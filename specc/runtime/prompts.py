"""From text and chats to prompt ids, with the bundle's tokenizer and its rule for the beginning of sequence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

from specc.bundle.manifest import TokenizerSpec
from specc.errors import SpeccError
from specc.runtime.chat import ChatTemplate, Message


class PromptEncoder:
    """Encodes prompts.

    Args:
        spec: rules and special tokens.
        tokenizer: loaded from the bundle.
        template: of chats, None when the bundle has none.
    """

    def __init__(self, spec: TokenizerSpec, tokenizer: Tokenizer, template: ChatTemplate | None) -> None:
        self.tokenizer = tokenizer
        self._spec = spec
        self._template = template

    def ids_from_text(self, text: str) -> list[int]:
        """Return the ids of a plain prompt; BOS comes first where the rule adds it and the text lacks it."""
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        bos = self._spec.bos_id
        return [bos, *ids] if self._spec.add_bos and bos is not None and ids[:1] != [bos] else ids

    def text_from_chat(self, messages: Sequence[Message], *, add_generation_prompt: bool = True) -> str:
        """Return the prompt text of a conversation.

        Raises:
            SpeccError: SPC710 there is no template, or it refused the messages.
        """
        if self._template is None:
            raise SpeccError(
                "SPC710",
                "chat",
                "the bundle has no chat template",
                "how a conversation becomes a prompt differs from model to model",
                "give a plain prompt, or name `target.chat_template` in the recipe and build again",
            )
        return self._template.render(messages, add_generation_prompt=add_generation_prompt)

    def ids_from_chat(self, messages: Sequence[Message], *, add_generation_prompt: bool = True) -> list[int]:
        """Return the ids of a conversation; the template itself says where BOS stands, so none is added."""
        text = self.text_from_chat(messages, add_generation_prompt=add_generation_prompt)
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids


def encoder_from_spec(spec: TokenizerSpec, bundle: Path) -> PromptEncoder:
    """Load the tokenizer and the chat template of a bundle.

    Raises:
        SpeccError: SPC715 the tokenizer's file is not one; SPC710 the template is not jinja2.
    """
    file = bundle / spec.file
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # noqa: BLE001 - the library raises bare Exception
        raise SpeccError(
            "SPC715", str(file), str(error), "prompts cannot be encoded without it", "build the bundle again"
        ) from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return PromptEncoder(spec, tokenizer, _template_from_spec(spec, bundle, tokenizer))


def _template_from_spec(spec: TokenizerSpec, bundle: Path, tokenizer: Tokenizer) -> ChatTemplate | None:
    if spec.chat_template is None:
        return None
    ids = {"bos_token": spec.bos_id, "eos_token": spec.eos_id}
    texts = {name: tokenizer.id_to_token(token) for name, token in ids.items() if token is not None}
    file = bundle / spec.chat_template
    return ChatTemplate(file.read_text(encoding="utf-8"), str(file), {k: v for k, v in texts.items() if v is not None})
