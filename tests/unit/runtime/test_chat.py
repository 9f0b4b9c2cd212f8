"""Chat templates and prompt encoding, against transformers where it renders the same template."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

from specc.bundle.manifest import TokenizerSpec
from specc.errors import SpeccError
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
    "filters and methods": """
{{ messages[0].content|upper|replace('B', 'bb')|center(40) }} {{ ', '.join(['a', 'b']) }}
{{ messages|map(attribute='role')|join('+') }} {{ '{}-{}'.format(1, 2) }} {{ '%s-%03d'|format('q', 3) }}
{{ 'a' * 3 + 'b' ~ 4 }} {{ 7 % 4 }} {{ 2 ** 10 }} {{ messages[0].content.split(',')|list }} {{ [1, 2] + [3] }}
{{ {'a': 1}|tojson }} {{ 'x'|indent(3) }} {{ 1.26|round(1) }} {{ 'abc'[::-1] }}
{{ messages|selectattr('role', 'equalto', 'user')|map(attribute='content')|list|length }}
{%- macro say(m) %}<{{ m.role }}>{% endmacro %}{{ say(messages[0]) }}
{%- for a, b in {'k': 1}.items() %}{{ a ~ b }}{% endfor %}
""",
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


ENDLESS = [
    '{{ "x" * 10**9 }}',
    "{{ 2 ** (10**9) }}",
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    '{% set n = namespace(s="xx") %}{% for i in range(60) %}{% set n.s = n.s ~ n.s %}{% endfor %}',
    '{% set n = namespace(s="xx") %}{% for i in range(60) %}{% set n.s = n.s + n.s %}{% endfor %}',
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    '{{ "x" | center(10**9) }}',
    '{{ "x".center(1000000000) }}',
    '{{ ["x"] | map("center", 10**9) | list }}',
    '{{ "%1000000000d" | format(1) }}',
    '{{ "%*d" % (1000000000, 1) }}',
    '{{ "{:1000000000}".format(1) }}',
    '{{ "{0}{0}{0}".format("x" * 5000000) }}',
    "{{ [1] | tojson(indent=1000000) }}",
    '{{ 1.5 | round(1000000000, "ceil") }}',
    '{% set s = "a" * 100000 %}{{ s | replace("a", s) }}',
    '{% set s = "a" * 100000 %}{{ s.replace("a", s) }}',
    '{{ ["a" * 100000] * 100000 }}',
    '{{ (["a" * 100000] * 1000) | join }}',
    '{{ ([["a" * 10000] * 1000] * 1000) | string }}',
    '{{ [1] | batch(10**9, "x") | list }}',
    '{{ ("a\n" * 1000) | indent(10**6) }}',
    "{{ lipsum(n=100000) }}",
    "{% for i in range(1000) %}{{ 'x' * 100000 }}{% endfor %}",
]  # fmt: skip


@pytest.mark.parametrize("template", ENDLESS)
def test_a_template_ends(template):
    """What would take all time or memory is refused before it does."""
    with pytest.raises(SpeccError) as caught:
        ChatTemplate(template, "chat.jinja", SPECIAL).render([{"role": "user", "content": "hi"}])
    assert caught.value.code == "SPC710"


def test_a_long_conversation_is_far_from_the_bounds():
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": f"{i} " + "word " * 400} for i in range(2000)]
    ours = ChatTemplate(TEMPLATES["tiny"], "chat.jinja", SPECIAL)
    text = ours.render(messages)
    assert len(text) > 4_000_000
    assert ours.render(messages) == text  # every rendering has a budget of its own
