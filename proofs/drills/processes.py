"""Processes for drills: started from a clean one, so that no connection or lock is inherited."""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.context import ForkServerContext


def clean_context() -> ForkServerContext:
    """Return a context whose processes come from one that has only imported this."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["proofs.drills.crowd", "proofs.drills.kills"])
    return context


@contextmanager
def workers(count: int) -> Iterator[ProcessPoolExecutor]:
    """Lend processes that do what they are handed."""
    with ProcessPoolExecutor(count, mp_context=clean_context()) as pool:
        yield pool
