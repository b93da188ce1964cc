"""From the body of a request to the text that a model reads: a list of blocks, in the order in which they are rendered.

A cache knows only this text. Tools come first, then the system prompt, then the messages; the keys of JSON stay in the
order in which they were sent. Each block is turned into tokens alone, so its tokens don't depend on what follows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

ANSWER = "\n\nAssistant:"  # where the answer begins


class Block(NamedTuple):
    """The text of one content block; `mark`: its cache_control, if it has one; `part`: tools, system or messages."""

    text: str
    part: str
    mark: Mapping[str, Any] | None = None


def anthropic_blocks(body: Mapping[str, Any]) -> list[Block]:
    """The blocks of a valid Messages request.

    What changes how messages are read (tool_choice, thinking, output_config) stands before the first message.
    """
    blocks = [Block(_anthropic_tool(tool), "tools", tool.get("cache_control")) for tool in body.get("tools") or ()]
    for block in _as_blocks(body.get("system") or ()):
        blocks.append(Block(f"\n\nSystem: {block['text']}", "system", block.get("cache_control")))
    before = "".join(
        f"\n\n{key}: {_json(body[key])}" for key in ("tool_choice", "thinking", "output_config") if body.get(key)
    )
    for message in body["messages"]:
        head = f"{before}\n\n{'Human' if message['role'] == 'user' else 'Assistant'}: "
        before = ""
        for block in _as_blocks(message["content"]):
            blocks.append(Block(head + _anthropic_text(block), "messages", block.get("cache_control")))
            head = "\n"
    return blocks


def anthropic_tail(body: Mapping[str, Any]) -> str:
    """What follows the last block: nothing when the last message is the beginning of the answer."""
    return "" if body["messages"][-1]["role"] == "assistant" else ANSWER


def openai_blocks(body: Mapping[str, Any]) -> list[Block]:
    """The blocks of a valid Chat Completions request: the tools, then one for each message."""
    blocks = [Block(f"Tool: {_json(tool)}\n", "tools") for tool in body.get("tools") or ()]
    for message in body["messages"]:
        role = {"user": "Human", "assistant": "Assistant", "developer": "System"}.get(
            message["role"], str(message["role"]).capitalize()
        )
        content = message.get("content")
        text = content if isinstance(content, str) else "".join(part["text"] for part in content or ())
        calls = f"\n{_json(message['tool_calls'])}" if message.get("tool_calls") else ""
        blocks.append(Block(f"\n\n{role}: {text}{calls}", "messages"))
    return blocks


def prompt_text(body: Mapping[str, Any]) -> str:
    """The whole prompt of a request of either provider, as the server's model reads it: the keyword arguments of
    `messages.create` or `chat.completions.create`, for `first_difference`.

    Raises ValueError where messages are missing or of another form.
    """
    try:
        openai = any(message["role"] in ("system", "developer", "tool") for message in body["messages"]) or any(
            "function" in tool for tool in body.get("tools") or ()
        )
        blocks = openai_blocks(body) if openai else anthropic_blocks(body)
        tail = ANSWER if openai else anthropic_tail(body)
    except (AttributeError, KeyError, IndexError, TypeError) as error:
        raise ValueError(
            f"this is no request of either provider ({error!r}): give the arguments of create() as a dictionary"
        ) from None
    return "".join(block.text for block in blocks) + tail


def _as_blocks(content: str | Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """A plain string is short for one block of text."""
    yield from ({"type": "text", "text": content},) if isinstance(content, str) else content


def _anthropic_text(block: Mapping[str, Any]) -> str:
    if block["type"] == "tool_use":
        return f"[call {block['name']} {_json(block['input'])}]"
    if block["type"] == "tool_result":
        return f"[result {''.join(part['text'] for part in _as_blocks(block.get('content') or ()))}]"
    return str(block["text"])


def _anthropic_tool(tool: Mapping[str, Any]) -> str:
    return f"Tool: {tool['name']} {tool.get('description') or ''} {_json(tool['input_schema'])}\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
