"""Eight clients of both SDKs at once: no error, no answer of somebody else, and memory that does not grow."""

import threading
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from provider_server import EPHEMERAL, ask, block, idle, serving, wait_for, words


def run_clients(seconds: float) -> tuple[int, list[str], list[float]]:
    """Eight clients of both SDKs at once; each answer must be what a single client gets. Memory in MB on the way."""
    texts = [words(1100 + 40 * i, i) for i in range(4)]
    with serving(positions=16384, keep=50) as server:
        alone: dict[tuple[str, int], str] = {}

        def answer(kind: str, client: Any, text: int) -> str:
            if kind == "anthropic":
                return str(ask(client, [block(texts[text], EPHEMERAL)], max_tokens=8).content[0].text)
            messages: Any = [{"role": "system", "content": texts[text]}, {"role": "user", "content": "What now?"}]
            reply = client.chat.completions.create(model="gpt-4o", messages=messages, max_tokens=8)
            return str(reply.choices[0].message.content)

        makers: dict[str, Callable[[str], Any]] = {"anthropic": server.anthropic, "openai": server.openai}
        for kind, make in makers.items():
            for text in range(4):
                alone[kind, text] = answer(kind, make(f"alone {text}"), text)
        wrong: list[str] = []
        done = [0] * 8
        end = time.monotonic() + seconds

        def visit(number: int) -> None:
            kind = ("anthropic", "openai")[number % 2]
            try:
                client = makers[kind](f"key {number % 3}")
                turn = number
                while time.monotonic() < end:
                    if answer(kind, client, turn % 4) != alone[kind, turn % 4]:
                        wrong.append(f"{kind} {turn % 4} differs")
                    done[number] += 1
                    turn += 1
            except Exception as error:  # collected, and shown by the caller
                wrong.append(repr(error))

        threads = [threading.Thread(target=visit, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        memory = []
        while any(thread.is_alive() for thread in threads):
            memory.append(psutil.Process().memory_info().rss / 1e6)
            time.sleep(0.25)
        wait_for(lambda: idle(server))
        server.engine.blocks.check()
        assert len(server.requests) <= 50 and not server.engine.log
        return min(done), wrong, memory


def test_eight_clients_at_once_for_three_seconds():
    least, wrong, _ = run_clients(3.0)
    assert wrong == [] and least >= 1


@pytest.mark.full
def test_eight_clients_at_once_for_twenty_seconds():
    """And the memory of the process stays where it is: the second half holds no more than the first, but for noise."""
    least, wrong, memory = run_clients(20.0)
    assert wrong == [] and least >= 5
    half = len(memory) // 2
    assert max(memory[half:]) - max(memory[half // 2 : half]) < 20, memory
