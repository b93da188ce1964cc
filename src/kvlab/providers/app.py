"""The HTTP side: routes of both providers, bodies and keys read with care, answers whole or as a stream of events."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException

from kvlab.providers import anthropic_wire, openai_wire
from kvlab.providers.errors import ApiError, invalid
from kvlab.providers.exchange import Exchange, Gone
from kvlab.providers.service import Prepared, Service
from kvlab.providers.visit import Counts
from kvlab.providers.worker import Done, Failed, Started, Text

MAX_BODY = 4 * 2**20  # bytes; far more than the window of any model here can hold
DRAIN = 64 * 2**20  # a larger body is not even read to its end


def build(service: Service) -> FastAPI:
    """The application. Every answer names the local model in the header x-kvlab-model."""
    header = service.local_model.encode("ascii", "replace").decode()
    app = FastAPI(title="kvlab", docs_url=None, redoc_url=None, openapi_url=None)

    @app.post("/v1/messages")
    async def create_message(request: Request) -> Response:
        prepared = await _prepare(request, service.create_message, _anthropic_key(request))
        exchange = Exchange(service.worker, prepared, "anthropic", request)
        if prepared.stream:
            return await _stream(_message_events(prepared, exchange), exchange)
        return JSONResponse(await _whole_message(prepared, exchange))

    @app.post("/v1/messages/count_tokens")
    async def count_tokens(request: Request) -> Response:
        _anthropic_key(request)
        body = await _body(request)
        return JSONResponse({"input_tokens": await run_in_threadpool(service.count_tokens, body)})

    @app.post("/v1/chat/completions")
    async def create_completion(request: Request) -> Response:
        prepared = await _prepare(request, service.create_completion, _openai_key(request))
        exchange = Exchange(service.worker, prepared, "openai", request)
        if prepared.stream:
            return await _stream(_completion_chunks(prepared, exchange), exchange)
        return JSONResponse(await _whole_completion(prepared, exchange))

    @app.get("/v1/models")
    async def models(request: Request) -> Response:
        anthropic = "anthropic-version" in request.headers
        names = service.model_ids["anthropic" if anthropic else "openai"]
        if anthropic:
            rows = [{"type": "model", "id": n, "display_name": n, "created_at": "1970-01-01T00:00:00Z"} for n in names]
            return JSONResponse({"data": rows, "has_more": False, "first_id": names[0], "last_id": names[-1]})
        data = [{"id": n, "object": "model", "created": 0, "owned_by": "kvlab"} for n in names]
        return JSONResponse({"object": "list", "data": data})

    @app.get("/stats")
    async def stats() -> Response:
        worker, blocks = service.worker, service.worker.engine.blocks
        return JSONResponse(
            {
                "model": service.local_model,
                "in_flight": worker.in_flight,
                "blocks": {"used": blocks.n_used, "cached": blocks.n_cached, "all": blocks.n_blocks},
                "requests": [item.as_json() for item in list(worker.stats)],
            }
        )

    @app.get("/")
    async def about() -> Response:
        return PlainTextResponse(about_text(service))

    @app.middleware("http")
    async def name_the_model(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        request.state.id = f"req_{secrets.token_hex(10)}"
        try:
            response = await call_next(request)
        except Exception as error:  # a mistake of ours: told in the provider's shape, and the connection goes on
            response = _error(request, _as_api_error(error))
        response.headers["x-kvlab-model"] = header
        response.headers["request-id" if _is_anthropic(request) else "x-request-id"] = request.state.id
        return response

    async def refuse(request: Request, error: Exception) -> Response:
        return _error(request, _as_api_error(error))

    for kind in (ApiError, Gone, HTTPException):
        app.add_exception_handler(kind, refuse)
    return app


def about_text(service: Service) -> str:
    """What GET / says."""
    return (
        f"This is kvlab's local server. Every answer comes from the small model {service.local_model!r} on this machine, "
        f"whatever model name a request gives; its text is not the point. What is real: the wire formats, the token "
        f"counts, and the prefix cache behind them. Nothing here costs money, and no key is checked.\n"
    )


# Requests


async def _prepare(request: Request, make: Callable[[Any, str], Prepared], key: str) -> Prepared:
    return await run_in_threadpool(make, await _body(request), key)


async def _body(request: Request) -> Any:
    """The parsed body. One that is too large is read and thrown away, so that the client hears why."""
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size <= MAX_BODY:
            pieces.append(piece)
        elif size > DRAIN:
            break
    if size > MAX_BODY:
        raise ApiError(413, "request_too_large", f"Request exceeds the maximum size of {MAX_BODY // 2**20} MiB")
    return await run_in_threadpool(_parse, b"".join(pieces))


def _parse(data: bytes) -> Any:
    """JSON that can be sent back: half a character (a lone surrogate) in any key or value is refused, as there."""
    try:
        value = json.loads(data)
        json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeEncodeError:
        raise invalid("The request body is not valid JSON: it holds half a character (a lone surrogate)") from None
    except (ValueError, RecursionError) as error:
        raise invalid(f"The request body is not valid JSON: {error}") from None


def _anthropic_key(request: Request) -> str:
    key = request.headers.get("x-api-key") or _bearer(request)
    if not key:
        raise ApiError(401, "authentication_error", "x-api-key header is required")
    return key


def _openai_key(request: Request) -> str:
    key = _bearer(request)
    if not key:
        message = "You didn't provide an API key. Any text will do here: it only names whose cache is used."
        raise ApiError(401, "invalid_request_error", message, None, "invalid_api_key")
    return key


def _bearer(request: Request) -> str:
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


# Answers


async def _stream(events: AsyncIterator[str], exchange: Exchange) -> Response:
    """Wait for the first event: what fails before it has a status of its own."""
    try:
        first = await anext(events)
    except BaseException:
        exchange.close()
        raise

    async def all_events() -> AsyncIterator[str]:
        try:
            yield first
            async for event in events:
                yield event
        except (Gone, asyncio.CancelledError):
            return
        finally:
            exchange.close()

    return StreamingResponse(all_events(), media_type="text/event-stream", headers={"cache-control": "no-cache"})


async def _message_events(prepared: Prepared, exchange: Exchange) -> AsyncIterator[str]:
    counts = Counts()
    async for event in exchange:
        if isinstance(event, Started):
            counts = event.counts
            for item in anthropic_wire.opening(prepared.id, prepared.model, counts):
                yield _sse(item, item["type"])
        elif isinstance(event, Text) and event.text:
            item = anthropic_wire.delta(event.text)
            yield _sse(item, item["type"])
        elif isinstance(event, Done):
            for item in anthropic_wire.closing(counts, event.n_output, event.reason, event.stop):
                yield _sse(item, item["type"])
        elif isinstance(event, Failed):
            if counts.total == 0:
                raise _as_api_error(event.error)
            yield _sse(anthropic_wire.error_body(_as_api_error(event.error), prepared.id), "error")


async def _whole_message(prepared: Prepared, exchange: Exchange) -> dict[str, Any]:
    counts, text, done = await _collect(exchange)
    shown = None if prepared.prefill_only else text
    return anthropic_wire.message(prepared.id, prepared.model, counts, done.n_output, shown, done.reason, done.stop)


async def _completion_chunks(prepared: Prepared, exchange: Exchange) -> AsyncIterator[str]:
    counts = Counts()
    head = (prepared.id, prepared.model, prepared.created)
    async for event in exchange:
        if isinstance(event, Started):
            counts = event.counts
            yield _sse(openai_wire.chunk(*head, {"role": "assistant", "content": "", "refusal": None}))
        elif isinstance(event, Text) and event.text:
            yield _sse(openai_wire.chunk(*head, {"content": event.text}))
        elif isinstance(event, Done):
            yield _sse(openai_wire.chunk(*head, {}, event.reason))
            if prepared.stream_usage:
                yield _sse(openai_wire.chunk(*head, None, usage=openai_wire.usage(counts, event.n_output)))
            yield "data: [DONE]\n\n"
        elif isinstance(event, Failed):
            if counts.total == 0:
                raise _as_api_error(event.error)
            yield _sse(openai_wire.error_body(_as_api_error(event.error)))


async def _whole_completion(prepared: Prepared, exchange: Exchange) -> dict[str, Any]:
    counts, text, done = await _collect(exchange)
    return openai_wire.completion(
        prepared.id, prepared.model, prepared.created, counts, done.n_output, text, done.reason
    )


async def _collect(exchange: Exchange) -> tuple[Counts, str, Done]:
    """Everything of one answer. Raises what failed, and Gone when the client has hung up."""
    counts, text, done = Counts(), [], Done("length", None, 0)
    try:
        async for event in exchange:
            if isinstance(event, Started):
                counts = event.counts
            elif isinstance(event, Text):
                text.append(event.text)
            elif isinstance(event, Done):
                done = event
            else:
                raise _as_api_error(event.error)
    finally:
        exchange.close()
    return counts, "".join(text), done


def _sse(data: dict[str, Any], name: str | None = None) -> str:
    head = "" if name is None else f"event: {name}\n"
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n"


# Refusals


def _as_api_error(error: Exception) -> ApiError:
    if isinstance(error, ApiError):
        return error
    if isinstance(error, HTTPException):
        kind = "not_found_error" if error.status_code == 404 else "invalid_request_error"
        return ApiError(error.status_code, kind, f"{error.detail}: this local server has no such address or method")
    if isinstance(error, ValueError):  # the engine's own refusals
        return invalid(str(error))
    return ApiError(500, "api_error", f"The local server failed: {error or type(error).__name__}")


def _error(request: Request, error: ApiError) -> Response:
    if _is_anthropic(request):
        body = anthropic_wire.error_body(error, request.state.id)
    else:
        body = openai_wire.error_body(error)
    return JSONResponse(body, status_code=error.status)


def _is_anthropic(request: Request) -> bool:
    return request.url.path.startswith("/v1/messages") or "anthropic-version" in request.headers
