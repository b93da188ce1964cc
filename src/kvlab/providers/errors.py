"""What goes wrong with a request, before it is put into the shape of one provider or the other."""

from __future__ import annotations


class ApiError(Exception):
    """A refusal. `kind` names it as Anthropic does; `param` and `code` are OpenAI's, which Anthropic leaves out."""

    def __init__(self, status: int, kind: str, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.kind, self.message, self.param, self.code = status, kind, message, param, code


def invalid(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """A request that says something impossible: status 400."""
    return ApiError(400, "invalid_request_error", message, param, code)


def need(package: str) -> None:
    """ImportError in one sentence unless the package is installed."""
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise ImportError(f"the package {package} is not installed: pip install 'kvlab[api]' brings it", name=package)
