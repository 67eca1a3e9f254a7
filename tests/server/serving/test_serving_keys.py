"""Keys of certificates that are made at the start."""

import threading

import pytest

from stowplan.server.serving import keys
from stowplan.server.serving.keys import new_key, new_key_ahead


def test_a_key_made_ahead_is_given_once() -> None:
    key_for = new_key_ahead()
    first, second = key_for(), key_for()
    assert first.key_size == second.key_size == 2048
    assert first.private_numbers() != second.private_numbers()


def test_two_who_look_ahead_get_different_keys() -> None:
    first, second = new_key_ahead()(), new_key_ahead()()
    assert first.private_numbers() != second.private_numbers()


def test_looking_ahead_begins_at_once_and_in_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    began, threads = threading.Event(), []

    def observed() -> object:
        threads.append(threading.current_thread())
        began.set()
        return new_key()

    monkeypatch.setattr(keys, "new_key", observed)
    key_for = new_key_ahead()
    assert began.wait(60)
    key_for()
    assert threading.current_thread() not in threads
    assert len(threads) == 1
