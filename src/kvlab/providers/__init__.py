"""Prompt caching as the two large providers sell it: rules, prices, and a local server that their SDKs can talk to.

Importing this package imports no torch and no SDK: the server's names are looked up when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kvlab.providers.clock import SkipClock, StillClock
from kvlab.providers.prices import ModelPrices, as_usage, cost, request_cost
from kvlab.providers.prompt import prompt_text
from kvlab.providers.rules import (
    Difference,
    break_even_requests,
    cached_prefix_length,
    first_difference,
    merge_usage,
    openai_cached_tokens,
)

if TYPE_CHECKING:
    from kvlab.providers.live import Clients, clients
    from kvlab.providers.server import LocalServer
    from kvlab.providers.worker import RequestStats

_LAZY = {
    "Clients": "kvlab.providers.live",
    "LocalServer": "kvlab.providers.server",
    "RequestStats": "kvlab.providers.worker",
    "clients": "kvlab.providers.live",
}

__all__ = [
    "Clients",
    "Difference",
    "LocalServer",
    "ModelPrices",
    "RequestStats",
    "SkipClock",
    "StillClock",
    "as_usage",
    "break_even_requests",
    "cached_prefix_length",
    "clients",
    "cost",
    "first_difference",
    "merge_usage",
    "openai_cached_tokens",
    "prompt_text",
    "request_cost",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'kvlab.providers' has no attribute '{name}'")
