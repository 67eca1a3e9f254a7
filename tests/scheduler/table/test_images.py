"""Which nodes have an image, however many they are and whichever come and go."""

from hypothesis import given, settings
from hypothesis import strategies as st
from numpy import int64, zeros

from effort import examples
from stowplan.api.node import ContainerImage
from stowplan.scheduler.table.nodecontents import ImageIndex

IMAGES = [
    ContainerImage(names=("a:1", "b@sha256:1"), size_bytes=10),
    ContainerImage(names=("c:1",), size_bytes=7),
]
CAPACITY = 40_000

rows = st.one_of(
    st.integers(0, 5).map(lambda row: range(row, row + 1)),
    st.integers(0, CAPACITY - 1).map(lambda row: range(row, row + 1)),
    st.tuples(st.integers(0, 3_000), st.integers(1, 400)).map(lambda at: range(at[0], at[0] + at[1])),
    st.tuples(st.integers(0, 3_000), st.integers(1, 90)).map(lambda at: range(at[0], at[0] + 97 * at[1], 97)),
)
"""One row, some in a row, or some far apart."""


@settings(max_examples=examples(100))
@given(changes=st.lists(st.tuples(st.booleans(), rows, st.sampled_from([1, 2])), max_size=12))
def test_rows_that_have_an_image_are_those_that_were_added_and_not_removed(
    changes: list[tuple[bool, range, int]],
) -> None:
    index = ImageIndex()
    model: dict[str, set[int]] = {}
    for comes, changed, count in changes:
        images = IMAGES[:count]
        before = index.version
        for row in changed:
            (index.add if comes else index.remove)(row, images)
        assert index.version != before
        for name in (name for image in images for name in image.names):
            known = model.setdefault(name, set())
            known |= set(changed) if comes else set()
            known -= set() if comes else set(changed)
    assert {name: state.count for name, state in index.states.items()} == {
        name: len(known) for name, known in model.items() if known
    }
    for name, state in index.states.items():
        sums = zeros(CAPACITY, dtype=int64)
        state.add_to(sums, 3)
        assert set(sums.nonzero()[0].tolist()) == model[name]
        assert sums.max() == 3
