"""Worker processes of this machine for many runs. They end with the process that started them."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import connection, get_context, parent_process
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def carried_out(work: Callable[[T], R], items: Sequence[T], jobs: int) -> Iterator[tuple[T, R]]:
    """Each item with its result, as they are done; in this process if there is only one at a time."""
    if jobs == 1 or len(items) < 2:
        for item in items:
            yield item, work(item)
        return
    spawning = get_context("spawn")
    with ProcessPoolExecutor(
        min(jobs, len(items)), mp_context=spawning, initializer=_end_with_parent
    ) as pool:
        futures = {pool.submit(work, item): item for item in items}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for its next item for ever."""
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_wait_for_end, args=(parent.sentinel,), daemon=True).start()


def _wait_for_end(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)
