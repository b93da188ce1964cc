"""The local server as a context manager: kvlab's engine behind the wire formats of Anthropic and OpenAI."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvlab.engine import Engine
from kvlab.model import Llama
from kvlab.providers.clock import SkipClock
from kvlab.providers.errors import need
from kvlab.providers.loopback import direct_client
from kvlab.providers.worker import RequestStats, Worker
from kvlab.sampling import SamplingSettings
from kvlab.validate import whole

if TYPE_CHECKING:
    import anthropic
    import openai

HOST = "127.0.0.1"
STARTING = 20.0  # seconds until we give up on a server that does not start


class LocalServer:
    """Serves a model at `url` inside a `with` block, on this machine only.

        with LocalServer("primer") as server:
            client = server.anthropic()

    model: a Llama with a tokenizer, or a name for `kvlab.load`.
    port: None takes a free one. Raises OSError in one sentence for a port that is in use.
    clock: anything with `now()`, in seconds; by default one that `advance` can set forward, so that entries expire.
    temperature: for requests that name none. 0 repeats its answers; the real services take 1.
    positions: size of the paged cache, in tokens of all requests and cached prefixes together.
    keep: for how many of the latest requests `requests` has figures.
    name: what GET / and the header x-kvlab-model call the model; a name given as `model` needs none.
    """

    def __init__(
        self,
        model: Llama | str | Path = "primer",
        port: int | None = None,
        clock: Any = None,
        temperature: float = 0.0,
        positions: int = 32768,
        block_size: int = 16,
        keep: int = 1000,
        name: str | None = None,
    ) -> None:
        for package in ("fastapi", "uvicorn"):
            need(package)
        from kvlab.providers.service import Service

        if port is not None and not 1 <= whole("port", port) <= 65535:
            raise ValueError(f"a port is a number from 1 to 65535, got {port}")
        self.model_name = name or ("a kvlab model" if isinstance(model, Llama) else str(model))
        if not isinstance(self.model_name, str) or not self.model_name.isprintable():  # it goes into a header
            raise ValueError(f"name must be one line of text, got {self.model_name!r:.60}")
        if clock is not None and not callable(getattr(clock, "now", None)):
            raise ValueError(f"clock must have a method now() that gives seconds, got {clock!r:.60}")
        temperature = SamplingSettings(temperature=temperature).temperature  # refuses what no request could use
        keep = whole("keep", keep)
        if not isinstance(model, Llama):
            from kvlab.loading import load

            model = load(model, device="cpu")
        self.clock = SkipClock() if clock is None else clock
        self.model = model
        self._wanted = port
        n_blocks = -(-whole("positions", positions, least=1) // whole("block_size", block_size, least=1))
        engine = Engine(model, n_blocks=n_blocks, block_size=block_size, max_seqs=16, token_budget=512)
        self.engine = engine
        self._worker = Worker(model, engine, keep)
        self._service = Service(self._worker, self.clock, self.model_name, temperature)
        self._server: Any = None
        self._thread: threading.Thread | None = None
        self.port = 0

    @property
    def url(self) -> str:
        """The address, without a path: Anthropic's base_url. OpenAI's is this and /v1."""
        if self._thread is None:
            raise ValueError("the server is not running: use it inside a with block")
        return f"http://{HOST}:{self.port}"

    def __enter__(self) -> LocalServer:
        import uvicorn

        from kvlab.providers.app import build

        if self._server is not None:
            raise ValueError("a server runs once: make a new one")
        listener = _listen(self._wanted)
        self.port = listener.getsockname()[1]
        config = uvicorn.Config(
            build(self._service), log_level="critical", access_log=False, lifespan="off", timeout_graceful_shutdown=2
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listener]}, name="kvlab-http", daemon=True
        )
        self._worker.start()
        self._thread.start()
        deadline = time.monotonic() + STARTING
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                listener.close()
                self._worker.stop()
                raise OSError(f"the server did not start on port {self.port}: try again, or choose another port")
            time.sleep(0.005)
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is None:
            raise ValueError("the server is not running: use it inside a with block")
        self._server.should_exit = True
        self._worker.stop()  # what is in flight ends with an error, so that its connection can close
        self._thread.join()
        self._thread = None

    def wait(self) -> None:
        """Until the server ends or Ctrl-C is pressed."""
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(0.5)

    def advance(self, seconds: float) -> None:
        """Let so many seconds be over on the server's clock: entries expire without waiting."""
        if not hasattr(self.clock, "advance"):
            raise ValueError("this clock can't be set forward: use a SkipClock or a StillClock")
        self.clock.advance(seconds)

    # What it has done

    @property
    def requests(self) -> list[RequestStats]:
        """Figures of the latest requests that are over, oldest first."""
        return list(self._worker.stats)

    def stats(self, request_id: str) -> RequestStats:
        """Figures of one request by the id of its answer. Raises ValueError for one that is unknown."""
        for item in reversed(self.requests):
            if item.id == request_id:
                return item
        raise ValueError(f"there are no figures of {request_id!r}: it is still running, or too long ago")

    # Clients

    def anthropic(self, api_key: str = "local") -> anthropic.Anthropic:
        """A client of the official SDK, set to this server. Keys are not checked, but each has its own cache."""
        need("anthropic")
        import anthropic

        client: anthropic.Anthropic = direct_client(
            anthropic.Anthropic, anthropic, base_url=self.url, api_key=api_key, max_retries=0
        )
        return client

    def openai(self, api_key: str = "local") -> openai.OpenAI:
        """A client of the official SDK, set to this server. Keys are not checked, but each has its own cache."""
        need("openai")
        import openai

        client: openai.OpenAI = direct_client(
            openai.OpenAI, openai, base_url=f"{self.url}/v1", api_key=api_key, max_retries=0
        )
        return client


def _listen(port: int | None) -> socket.socket:
    # The protocol is named so that asyncio switches Nagle's algorithm off: it would hold every answer for 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":  # elsewhere it would let two servers share a port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port or 0))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise OSError(
            f"port {port} cannot be used ({error.strerror}): close what uses it, choose another one, or give none to get a free one"
        ) from None
    return listener
