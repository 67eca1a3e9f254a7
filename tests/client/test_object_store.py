"""The nomination a store keeps to its handler."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from client.reflected_store import Checked
from stowplan.api.meta import ObjectMeta
from stowplan.api.pod import Pod
from stowplan.client import ObjectStore, Unreadable
from stowplan.runtime.sharding import ShardedDict

pods = st.builds(
    lambda name, uid, version: Pod(metadata=ObjectMeta(name=name, uid=uid, resource_version=version)),
    name=st.sampled_from("abc"),
    uid=st.sampled_from("12"),
    version=st.sampled_from("567"),
)
steps = st.lists(
    st.tuples(st.just("put"), pods)
    | st.tuples(st.just("remove"), st.sampled_from("abc") | pods)
    | st.tuples(st.just("skip"), st.sampled_from("abc"))
    | st.tuples(st.just("add handler"), st.none())
    | st.tuples(
        st.sampled_from(("replace", "put all")),
        st.lists(pods, max_size=3, unique_by=lambda pod: pod.name),
    ),
    max_size=30,
)


class CheckedInBulk(Checked):
    """A handler that takes many additions at once."""

    def added_all(self, new: Sequence[Pod]) -> None:
        assert new
        for pod in new:
            self.added(pod)


@given(steps, st.sampled_from((Checked, CheckedInBulk)))
def test_what_a_handler_is_told_adds_up_to_the_store(
    steps: list[tuple[str, object]], kind: type[Checked]
) -> None:
    """Also a handler that is added later."""
    handlers = [kind()]
    store: ObjectStore[Pod] = ObjectStore(handlers[0], lambda unreadable: None)
    for verb, what in steps:
        match verb, what:
            case "put", Pod() as pod:
                store.put(pod.key, pod)
                assert store.objects[pod.key].metadata.uid == pod.metadata.uid
                assert pod.key not in store.unreadable
            case "remove", Pod() as pod:
                store.remove(pod.key, pod)
                assert pod.key not in store.objects
            case "remove", str() as key:
                store.remove(key)
                assert key not in store.objects
            case "skip", str() as key:
                store.skip(Unreadable(key, "odd"))
                assert key in store.unreadable
            case "put all", list() as items:
                store.put_all({pod.key: pod for pod in items})
                assert {pod.key for pod in items} <= store.objects.keys() - store.unreadable
            case "replace", list() as items:
                list(store.replace(ShardedDict({pod.key: pod for pod in items})))
                assert sorted(store.objects) == sorted(pod.key for pod in items)
                assert not store.unreadable
            case "add handler", None:
                handlers.append(Checked())
                store.add_handler(handlers[-1])
        assert all(handler.objects == dict(store.objects) for handler in handlers)


def test_a_deleted_object_is_shown_in_its_last_state_if_that_is_known() -> None:
    last: list[Pod] = []

    class Remembering(Checked):
        def deleted(self, gone: Pod) -> None:
            super().deleted(gone)
            last.append(gone)

    store: ObjectStore[Pod] = ObjectStore(Remembering(), lambda unreadable: None)
    first = Pod(metadata=ObjectMeta(name="a", uid="1", resource_version="1"))
    final = Pod(metadata=ObjectMeta(name="a", uid="1", resource_version="2"))
    other = Pod(metadata=ObjectMeta(name="a", uid="2", resource_version="3"))
    for shown in (final, None, other):
        store.put(first.key, first)
        store.remove("a", shown)
    assert last == [final, first, first]
