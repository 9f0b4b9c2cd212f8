"""Chat templates and prompt encoding, against transformers where it renders the same template."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

from specc.bundle.manifest import TokenizerSpec
from specc.runtime.chat import ChatTemplate
from specc.runtime.prompts import PromptEncoder, encoder_from_spec
from tests.tiny_models import BOS, CHAT_TEMPLATE, byte_tokenizer

MESSAGES = [
    {"role": "system", "content": "Be brief, \u4f60 <&>."},
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "Hi"},
    {"role": "user", "content": "Bye"},
]
SPECIAL = {"bos_token": "<|bos|>", "eos_token": "<|eos|>"}

TEMPLATES = {
    "tiny": CHAT_TEMPLATE,
    "blocks and trimming": """
{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {%- generation %}
    {{ message.content + eos_token }}
        {%- endgeneration %}
    {%- else %}
    {{- '<' ~ message['role'] ~ '>' ~ message.content | trim }}
    {%- endif %}
    {%- if loop.index > 2 %}{% break %}{% endif %}
{%- endfor %}
{% if add_generation_prompt %}
<assistant>
{% endif %}
""",
    "json": "{{ messages | tojson }} {{ messages[0] | tojson(indent=2) }} {{ messages[0].content | length }}",
    "state": "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}",
    "undefined": "{% if tools is defined and tools %}T{% endif %}{{ unknown_token }}.",
}


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("add_generation_prompt", [True, False])
def test_renders_as_transformers_does(name, add_generation_prompt):
    from transformers.utils.chat_template_utils import render_jinja_template

    rendered, _ = render_jinja_template(
        conversations=[MESSAGES],
        chat_template=TEMPLATES[name],
        add_generation_prompt=add_generation_prompt,
        **SPECIAL,
    )
    ours = ChatTemplate(TEMPLATES[name], "chat.jinja", SPECIAL)
    assert ours.render(MESSAGES, add_generation_prompt=add_generation_prompt) == rendered[0]


def test_the_date_of_today():
    rendered = ChatTemplate("{{ strftime_now('%Y-%m-%d') }}", "chat.jinja", {}).render([])
    assert datetime.strptime(rendered, "%Y-%m-%d")


def bundle_of(tmp_path, **rules) -> PromptEncoder:
    byte_tokenizer().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "chat.jinja").write_text(CHAT_TEMPLATE)
    spec = {"vocab_size": 259, "stop_ids": (257, 258), "bos_id": BOS, "add_bos": True, "eos_id": 257, **rules}
    return encoder_from_spec(TokenizerSpec(file="tokenizer.json", chat_template="chat.jinja", **spec), tmp_path)


def test_bos_stands_once_in_texts_and_chats(tmp_path):
    encoder = bundle_of(tmp_path)
    assert encoder.ids_from_text("ab")[0] == BOS
    for ids in (encoder.ids_from_text("ab"), encoder.ids_from_text("<|bos|>ab"), encoder.ids_from_chat(MESSAGES)):
        assert ids.count(BOS) == 1
    assert encoder.ids_from_text("") == [BOS]
    assert BOS not in bundle_of(tmp_path, add_bos=False).ids_from_text("ab")
    assert bundle_of(tmp_path, add_bos=False).ids_from_chat(MESSAGES)[0] == BOS


def test_templates_see_the_tokenizers_own_end_of_sequence(tmp_path):
    encoder = bundle_of(tmp_path)
    (tmp_path / "chat.jinja").write_text("{{ bos_token }}{{ eos_token }}")
    encoder = encoder_from_spec(
        TokenizerSpec("tokenizer.json", "chat.jinja", 259, (257, 258), BOS, True, eos_id=258), tmp_path
    )
    assert encoder.text_from_chat(MESSAGES) == "<|bos|><|end|>"


def test_padding_and_truncation_of_the_tokenizers_file_are_switched_off(tmp_path):
    tokenizer = byte_tokenizer()
    tokenizer.enable_truncation(max_length=4)
    tokenizer.enable_padding(length=32)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert json.loads((tmp_path / "tokenizer.json").read_text())["truncation"] is not None
    encoder = encoder_from_spec(TokenizerSpec("tokenizer.json", None, 259, (), None, False), tmp_path)
    assert len(encoder.ids_from_text("abcdefgh")) == 8
