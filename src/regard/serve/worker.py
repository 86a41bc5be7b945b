"""The worker: runs one computation on the model at a time, and stops computations whose answer nobody waits for."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from math import ceil
from typing import Any, TypeVar

from starlette.exceptions import HTTPException
from torch.nn.modules.module import register_module_forward_pre_hook

PATIENCE = 2.0  # maximum time in seconds that a request waits for a place in the queue

T = TypeVar("T")


class JobCancelledError(Exception):
    """Raised inside a computation whose answer is no longer needed."""


class Worker:
    """Runs one job at a time, because capturing sets hooks on the model.

    A request that finds the queue full waits briefly and is then refused: an immediate refusal would make clients
    repeat their requests, which takes time from the running job.

    Args:
        queue: maximum number of pending jobs, including the running one.
        seconds: timeout of a job, including its time in the queue.
    """

    def __init__(self, queue: int, seconds: float) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="regard")
        self._places, self._seconds = asyncio.Semaphore(queue), seconds
        self._answers: set[asyncio.Future[Any]] = set()
        self._is_closed = False

    async def do(self, work: Callable[[], T]) -> T:
        """Queues the work and returns its result; if the caller is cancelled, the work is, too."""
        try:
            async with asyncio.timeout(PATIENCE):
                await self._places.acquire()
        except TimeoutError:
            headers = {"retry-after": str(ceil(PATIENCE))}
            raise HTTPException(429, "too many requests; try again in a moment", headers) from None
        if self._is_closed:
            self._places.release()
            raise _closing()
        loop, is_cancelled = asyncio.get_running_loop(), threading.Event()
        answer: asyncio.Future[T] = loop.create_future()
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())  # logs nothing if nobody waits
        self._answers.add(answer)
        job = self._pool.submit(_run, work, is_cancelled)
        job.add_done_callback(partial(self._done, loop, answer))
        try:
            async with asyncio.timeout(self._seconds):
                return await answer
        except TimeoutError:
            raise HTTPException(503, f"no answer within {self._seconds:g} seconds; try a shorter text") from None
        finally:
            is_cancelled.set()
            job.cancel()
            self._answers.discard(answer)

    def _done(self, loop: asyncio.AbstractEventLoop, answer: "asyncio.Future[T]", job: "Future[T]") -> None:
        with suppress(RuntimeError):  # the loop may be closed already
            loop.call_soon_threadsafe(self._settle, answer, job)

    def _settle(self, answer: "asyncio.Future[T]", job: "Future[T]") -> None:
        # only here, so that a running job keeps its place in the queue until it ends
        self._places.release()
        if answer.done() or job.cancelled():
            return
        if (error := job.exception()) is not None:
            answer.set_exception(error)
        else:
            answer.set_result(job.result())

    def close(self) -> None:
        """Cancels all jobs and answers their requests with an error."""
        self._is_closed = True
        for answer in [answer for answer in self._answers if not answer.done()]:
            answer.set_exception(_closing())
        self._pool.shutdown(wait=False, cancel_futures=True)


def _closing() -> HTTPException:
    return HTTPException(503, "the explorer is shutting down")


def _run(work: Callable[[], T], is_cancelled: threading.Event) -> T:
    """Runs the work; if it is cancelled, it stops at the next call of a module."""
    thread = threading.get_ident()

    def check(*_call: Any) -> None:
        if is_cancelled.is_set() and threading.get_ident() == thread:
            raise JobCancelledError

    # a hook for all modules, because a model with hooks of its own is decoded without the fast decoder
    hook = register_module_forward_pre_hook(check)
    try:
        return work()
    finally:
        hook.remove()
