"""A dictionary in shards is a dictionary, and no part of it grows large."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.reflected_store import Checked
from stowplan.api.pod import Pod
from stowplan.client.objectstore import ObjectStore
from stowplan.runtime import sharding
from stowplan.runtime.sharding import ShardedDict
from stowplan.testing import pod

KEYS = st.integers(0, 40).map(lambda number: f"default/pod-{number}")
STEPS = st.lists(st.tuples(st.sampled_from(["set", "add", "delete", "pop", "get"]), KEYS, st.integers(1, 9)))


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let eight entries be many."""
    monkeypatch.setattr(sharding, "FEW", 8)


@settings(max_examples=300)
@given(STEPS)
def test_it_holds_what_a_dictionary_holds(steps: list[tuple[str, str, int]]) -> None:
    plain: dict[str, int] = {}
    sharded: ShardedDict[int] = ShardedDict()
    for step, key, value in steps:
        if step == "set":
            plain[key] = sharded[key] = value
        elif step == "add":
            more = {f"{key}{place}": value for place in range(value)}
            assert sharded.has_any(more) == any(one in plain for one in more)
            plain.update(more)
            sharded.add_all(more)
        elif step == "delete" and key in plain:
            del plain[key]
            del sharded[key]
        elif step == "pop":
            assert sharded.pop(key, None) == plain.pop(key, None)
        assert sharded.get(key) == plain.get(key)
        assert sharded.get(key, 17) == plain.get(key, 17)
        assert (key in sharded) == (key in plain)
        assert len(sharded) == len(plain)
        assert sharded == plain
    assert sorted(sharded) == sorted(plain)
    assert sorted(sharded.values()) == sorted(plain.values())
    assert dict(sharded.items()) == plain


def test_keys_that_are_not_there_are_refused_as_by_any_dictionary() -> None:
    sharded: ShardedDict[int] = ShardedDict()
    for size in (3, 30):
        sharded.add_all({str(number): number for number in range(size)})
        for refused in (lambda: sharded["no"], lambda: sharded.pop("no"), lambda: sharded.__delitem__("no")):
            with pytest.raises(KeyError):
                refused()


def test_few_entries_are_in_the_order_in_which_they_came() -> None:
    sharded: ShardedDict[int] = ShardedDict()
    for number in (5, 1, 4, 2):
        sharded[str(number)] = number
    assert list(sharded) == ["5", "1", "4", "2"]
    assert list(sharded.values()) == [5, 1, 4, 2]


@pytest.mark.parametrize("name", ["default/web-{}", "default/web-{:08d}", "uid-{:x}", "ns-{}/same"])
def test_however_keys_are_named_every_shard_stays_small(name: str) -> None:
    sharded: ShardedDict[int] = ShardedDict()
    count = 20_000
    for number in range(count):
        sharded[name.format(number)] = number
    sizes = [len(shard) for shard in sharded.shards()]
    assert sum(sizes) == count
    assert max(sizes) < 2 * count / len(sizes)


def test_shards_do_not_grow_at_the_same_time() -> None:
    """Else all of them would be copied in one turn of the event loop, as one large dictionary is."""
    sharded: ShardedDict[int] = ShardedDict()
    for number in range(200_000):
        sharded[f"default/web-{number // 100}-{number:x}"] = number
    sizes = [len(shard) for shard in sharded.shards() if shard]
    mean = sum(sizes) / len(sizes)
    assert sum((size - mean) ** 2 for size in sizes) / len(sizes) > mean / 3


def test_a_large_list_replaces_another() -> None:
    store: ObjectStore[Pod] = ObjectStore(handler := Checked(), lambda unreadable: None)
    before = [pod(f"p{number}").obj() for number in range(30)]
    after = [pod(f"p{number}").obj() for number in range(20, 60)]
    for listed in (before, after):
        for _ in store.replace(ShardedDict({one.key: one for one in listed})):
            pass
        assert set(store.objects) == {one.key for one in listed}
        assert handler.objects == dict(store.objects)
