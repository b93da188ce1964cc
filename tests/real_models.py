"""Tests on a real model need it in the user's cache: skip with the command that brings it; fail where
KVLAB_REQUIRE=all."""

import os

import pytest

from kvlab import models


def require_model(name: str) -> None:
    """Skip the running test unless `kvlab models add NAME` was run; fail it instead when KVLAB_REQUIRE=all."""
    if models.is_here(name):
        return
    message = f"the model {name} is missing (`kvlab models add {name}`)"
    if os.environ.get("KVLAB_REQUIRE") == "all":
        pytest.fail(f"{message}, and KVLAB_REQUIRE=all asks for everything")
    pytest.skip(message)
