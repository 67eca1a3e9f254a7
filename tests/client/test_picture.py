"""The promise a picture keeps to its handler."""

from hypothesis import given
from hypothesis import strategies as st

from client.worlds import Checked
from stowplan.api.meta import ObjectMeta
from stowplan.api.pod import Pod
from stowplan.client import Picture, Unreadable

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
    | st.tuples(
        st.just("replace"),
        st.lists(pods, max_size=3, unique_by=lambda pod: pod.name),
    ),
    max_size=30,
)


@given(steps)
def test_what_a_handler_is_told_adds_up_to_the_picture(steps: list[tuple[str, object]]) -> None:
    handler = Checked()
    picture: Picture[Pod] = Picture(handler, lambda unreadable: None)
    for verb, what in steps:
        match verb, what:
            case "put", Pod() as pod:
                picture.put(pod.key, pod)
                assert picture.objects[pod.key].metadata.uid == pod.metadata.uid
                assert pod.key not in picture.unreadable
            case "remove", Pod() as pod:
                picture.remove(pod.key, pod)
                assert pod.key not in picture.objects
            case "remove", str() as key:
                picture.remove(key)
                assert key not in picture.objects
            case "skip", str() as key:
                picture.skip(Unreadable(key, "odd"))
                assert key in picture.unreadable
            case "replace", list() as items:
                list(picture.replace(items))
                assert sorted(picture.objects) == sorted(pod.key for pod in items)
                assert not picture.unreadable
        assert handler.objects == dict(picture.objects)


def test_a_deleted_object_is_shown_in_its_last_state_if_that_is_known() -> None:
    last: list[Pod] = []

    class Remembering(Checked):
        def deleted(self, gone: Pod) -> None:
            super().deleted(gone)
            last.append(gone)

    picture: Picture[Pod] = Picture(Remembering(), lambda unreadable: None)
    first = Pod(metadata=ObjectMeta(name="a", uid="1", resource_version="1"))
    final = Pod(metadata=ObjectMeta(name="a", uid="1", resource_version="2"))
    other = Pod(metadata=ObjectMeta(name="a", uid="2", resource_version="3"))
    for shown in (final, None, other):
        picture.put(first.key, first)
        picture.remove("a", shown)
    assert last == [final, first, first]
