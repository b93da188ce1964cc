"""What stands beside a tokenizer in `tokenizer_config.json`: its begin and end tokens, and how a chat becomes a text."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvlab.jsonfile import read_json

Message = Mapping[str, str]


@dataclass(frozen=True)
class TextSettings:
    """`adds_bos`: whether plain text begins with `bos`; None where the file does not say."""

    bos: str | None = None
    eos: str | None = None
    adds_bos: bool | None = None
    chat_template: str | None = None

    @classmethod
    def beside(cls, tokenizer: Path) -> "TextSettings | None":
        """The settings next to a `tokenizer.json`, or None where there are none. ValueError for a damaged file."""
        path = tokenizer.with_name("tokenizer_config.json")
        if not path.exists():
            return None
        content = read_json(path, dict, "restore it from where it came from")
        template = content.get("chat_template")
        if isinstance(template, list):  # several, by name
            named = {entry.get("name"): entry.get("template") for entry in template if _is_named(entry)}
            template = named.get("default")
        newer = tokenizer.with_name("chat_template.jinja")
        if newer.exists():
            try:
                template = newer.read_text("utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise ValueError(f"{newer} cannot be read: restore it from where it came from") from error
        adds = content.get("add_bos_token")
        return cls(
            _name(content.get("bos_token")),
            _name(content.get("eos_token")),
            adds if isinstance(adds, bool) else None,
            template if isinstance(template, str) else None,
        )


def _name(token: Any) -> str | None:
    """A special token is written as its text, or as an object with its text in `content`."""
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else None


def render(settings: TextSettings | None, messages: Sequence[Message], add_generation_prompt: bool = True) -> str:
    """The text of a chat as the model was trained to see it, ready for `tokenizer.encode(text, bos=False)`.

    Each message has a `role` (system, user, assistant) and a `content`. `add_generation_prompt` ends the text where
    the assistant's answer begins. The template comes with the model, so it runs in Jinja's sandbox.
    Raises ValueError without a template, for messages of another form, and for what the template itself refuses.
    """
    from jinja2 import TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    if settings is None or settings.chat_template is None:
        raise ValueError("this model has no chat template: it continues texts, so give it the text itself")
    if isinstance(messages, Iterable) and not isinstance(messages, str | Mapping):
        messages = list(messages)  # a generator could be read only once
    if not isinstance(messages, list) or not messages or not all(map(_is_message, messages)):
        raise ValueError(
            f'messages must be a list such as [{{"role": "user", "content": "Hello"}}], got {messages!r:.80}'
        )

    def refuse(reason: str) -> None:
        raise TemplateError(reason)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = refuse
    try:
        return environment.from_string(settings.chat_template).render(
            messages=[dict(message) for message in messages],
            add_generation_prompt=add_generation_prompt,
            bos_token=settings.bos or "",
            eos_token=settings.eos or "",
        )
    except TemplateError as error:
        raise ValueError(f"the model's chat template refuses these messages: {error}") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, RecursionError) as error:  # its own mistakes
        raise ValueError(f"the model's chat template fails: {type(error).__name__}: {error!s:.100}") from error


def _is_named(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("name"), str)


def _is_message(message: Any) -> bool:
    return (
        isinstance(message, Mapping)
        and isinstance(message.get("role"), str)
        and isinstance(message.get("content"), str)
    )
