"""Between the worker's thread and one HTTP request: its events in order, and an eye on whether the client is there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from fastapi import Request

from kvlab.providers.service import Prepared
from kvlab.providers.worker import Done, Event, Failed, Job, Worker


class Gone(Exception):
    """The client has hung up."""


class Exchange:
    """Iterate over the events of one job. Make it inside the event loop, and close it.

    A client that hangs up ends the job at once, whether or not anybody iterates.
    """

    def __init__(self, worker: Worker, prepared: Prepared, provider: str, request: Request) -> None:
        self._worker, self._request, self._id = worker, request, prepared.id
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._over = False
        loop = asyncio.get_running_loop()

        def send(event: Event) -> None:
            loop.call_soon_threadsafe(self._events.put_nowait, event)

        job = Job(
            prepared.id,
            prepared.visit,
            send,
            provider,
            prepared.model,
            prepared.max_new,
            prepared.settings,
            prepared.stop,
            prepared.prefill_only,
        )
        worker.submit(job)
        self._gone = asyncio.ensure_future(self._hung_up())
        self._gone.add_done_callback(lambda _: self.close())

    async def __aiter__(self) -> AsyncIterator[Event]:
        while not self._over:
            event = asyncio.ensure_future(self._events.get())
            try:
                await asyncio.wait({event, self._gone}, return_when=asyncio.FIRST_COMPLETED)
                if not event.done():
                    raise Gone
            finally:
                event.cancel()  # nothing happens to one that is done
            item = event.result()
            self._over = isinstance(item, Done | Failed)
            yield item

    def close(self) -> None:
        """Free what the job holds, if it still runs."""
        self._gone.cancel()
        if not self._over:
            self._over = True
            self._worker.cancel(self._id)

    async def _hung_up(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":
            pass
