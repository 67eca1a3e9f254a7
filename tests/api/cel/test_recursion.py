"""Deep expressions get room on the stack for themselves only."""

import sys
import threading

from stowplan.api.cel.devices import compile_selector, device_of
from stowplan.api.cel.recursion import DeepStack

DEVICE = device_of("d.example.com", {"name": "g"})


def test_the_recursion_limit_is_what_it_was_after_a_deep_expression() -> None:
    before = sys.getrecursionlimit()
    compiled = compile_selector("!" * 2 + "(" * 240 + "true" + ")" * 240 + " && " + "1+" * 200 + "1 == 201")
    assert sys.getrecursionlimit() == before
    assert compiled.match(DEVICE).matched
    assert sys.getrecursionlimit() == before


def test_a_deep_expression_is_evaluated_from_deep_down() -> None:
    compiled = compile_selector("1+" * 240 + "1 == 241")

    def descend(levels: int) -> bool:
        return descend(levels - 1) if levels else compiled.match(DEVICE).matched

    assert descend(400)


def test_blocks_that_overlap_in_threads_leave_the_limit_as_it_was() -> None:
    before = sys.getrecursionlimit()
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with DeepStack(5000):
            entered.set()
            leave.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait()
    with DeepStack(2000):
        leave.set()
        thread.join()
        assert sys.getrecursionlimit() >= 2000
    assert sys.getrecursionlimit() == before
