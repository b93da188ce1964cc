"""What stands beside a tokenizer: begin and end tokens, and the chat template."""

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, processors

from kvlab.chat import TextSettings, render
from kvlab.tokenizer import Tokenizer
from test_tokenizer import PRIMER, byte_level

HELLO = [{"role": "user", "content": "Hello"}]


def saved(folder: Path, config: dict[str, Any] | str | None, processor: str = "") -> Path:
    """A tokenizer with three special tokens, and the file beside it."""
    inner = byte_level()
    inner.add_special_tokens([AddedToken(name) for name in ("<s>", "<start>", "<end>")])
    if processor:
        inner.post_processor = processors.TemplateProcessing(f"{processor} $A", special_tokens=[(processor, 257)])
    inner.save(str(folder / "tokenizer.json"))
    if config is not None:
        text = config if isinstance(config, str) else json.dumps(config)
        (folder / "tokenizer_config.json").write_text(text)
    return folder / "tokenizer.json"


@pytest.mark.parametrize(
    ("config", "processor", "bos", "eos"),
    [
        (None, "", 256, None),  # nothing beside it: the usual names
        ({"bos_token": "<start>", "eos_token": "<end>"}, "", None, 258),
        ({"bos_token": "<start>", "eos_token": "<end>"}, "<start>", 257, 258),
        ({"bos_token": "<start>", "eos_token": "<end>", "add_bos_token": True}, "", 257, 258),
        ({"bos_token": "<start>", "eos_token": "<end>", "add_bos_token": False}, "<start>", None, 258),
        ({"bos_token": {"content": "<start>"}, "add_bos_token": True}, "", 257, None),
        ({"bos_token": "<none>", "eos_token": 3, "add_bos_token": True}, "", None, None),
        ({}, "", None, None),
    ],
)
def test_begin_and_end(
    tmp_path: Path, config: dict[str, Any] | None, processor: str, bos: int | None, eos: int | None
) -> None:
    tokenizer = Tokenizer.from_file(saved(tmp_path, config, processor))
    assert (tokenizer.bos_id, tokenizer.eos_id) == (bos, eos)
    assert tokenizer.encode("a") == ([] if bos is None else [bos]) + tokenizer.encode("a", bos=False)


def test_a_damaged_file_beside_it_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"tokenizer_config\.json is damaged"):
        Tokenizer.from_file(saved(tmp_path, "{"))


@pytest.mark.parametrize(
    "template",
    ["A {{ messages[0].content }}", [{"name": "tool"}, {"name": "default", "template": "A {{ messages[0].content }}"}]],
)
def test_the_template_of_the_file(tmp_path: Path, template: Any) -> None:
    tokenizer = Tokenizer.from_file(saved(tmp_path, {"chat_template": template}))
    assert tokenizer.chat_text(HELLO) == "A Hello"
    (tmp_path / "chat_template.jinja").write_text("B {{ messages[0].content }}")
    assert Tokenizer.from_file(tmp_path / "tokenizer.json").chat_text(HELLO) == "B Hello"


def test_what_a_template_is_given() -> None:
    template = "{{ bos_token }}{% for m in messages %}\n    {{ m['content'] }}{% endfor %}{% if add_generation_prompt %}>{% endif %}{{ eos_token }}"
    settings = TextSettings("<s>", "</s>", True, template)
    assert render(settings, HELLO) == "<s>    Hello></s>"
    assert render(settings, HELLO, add_generation_prompt=False) == "<s>    Hello</s>"


def test_a_model_without_a_template() -> None:
    with pytest.raises(ValueError, match="no chat template"):
        PRIMER.chat_text(HELLO)
    with pytest.raises(ValueError, match="no chat template"):
        render(TextSettings(), HELLO)


@pytest.mark.parametrize(
    "messages",
    [[], "Hello", {"role": "user", "content": "Hello"}, [3], [{"role": "user"}], [{"role": "user", "content": 3}]],
)
def test_messages_of_another_form(messages: Any) -> None:
    with pytest.raises(ValueError, match="messages must be a list such as"):
        render(TextSettings(chat_template="{{ messages }}"), messages)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{% for %}", "refuses these messages"),
        ("{{ ''.__class__.__mro__ }}", "refuses these messages"),  # the sandbox
        ("{{ messages.append(3) }}", "refuses these messages"),
    ],
)
def test_a_template_that_refuses(template: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        render(TextSettings(chat_template=template), HELLO)
