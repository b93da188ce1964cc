"""Skips that name what is missing, and fail where everything is required."""

import importlib.util


def require(name: str) -> None:
    assert importlib.util.find_spec(name)
