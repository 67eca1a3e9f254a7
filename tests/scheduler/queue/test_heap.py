"""A heap whose entries can be found by key."""

from hypothesis import given
from hypothesis import strategies as st

from stowplan.scheduler.queue.heaps import KeyedHeap

keys = st.sampled_from("abcdefgh")
operations = st.lists(
    st.one_of(
        st.tuples(st.just("put"), keys, st.integers(0, 5)),
        st.tuples(st.just("remove"), keys, st.just(0)),
        st.tuples(st.just("pop"), st.just(""), st.just(0)),
    ),
    max_size=200,
)


@given(operations)
def test_it_gives_what_a_sorted_list_would_give(steps: list[tuple[str, str, int]]) -> None:
    heap: KeyedHeap[tuple[str, int]] = KeyedHeap(lambda item: item[1])
    model: dict[str, tuple[int, int]] = {}
    for number, (step, key, value) in enumerate(steps):
        first = min(model, key=lambda each: model[each], default=None)
        if step == "put":
            model[key] = (value, model[key][1] if key in model else number)
            heap.put(key, (key, value))
        elif step == "remove":
            expected = model.pop(key, None)
            assert heap.remove(key) == (None if expected is None else (key, expected[0]))
        else:
            assert heap.pop() == (None if first is None else (first, model.pop(first)[0]))
        assert len(heap) == len(model)
        assert sorted(heap) == sorted((name, each[0]) for name, each in model.items())
        assert all(heap.get(name) == (name, each[0]) and name in heap for name, each in model.items())


def test_entries_that_no_longer_count_do_not_pile_up() -> None:
    heap: KeyedHeap[int] = KeyedHeap(lambda item: item)
    for n in range(10_000):
        heap.put("same", n)
    assert len(heap._line) + len(heap._heap) < 200
    for n in range(1000):
        heap.put(str(n), n)
    for n in range(1000):
        heap.remove(str(n))
    assert len(heap._line) + len(heap._heap) < 200
    assert heap.pop() == 9_999
