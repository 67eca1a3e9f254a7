"""NumPy starts threads for linear algebra, which is not used here, unless they are disabled."""

import os

import pytest

from stowplan.cli import main


@pytest.mark.parametrize(("given", "expected"), [(None, "1"), ("4", "4")])
def test_numpy_is_told_to_start_no_threads_unless_the_user_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, given: str | None, expected: str
) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", given or "")
    if given is None:
        monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    seen: list[str | None] = []
    monkeypatch.setattr(main, "stowplan", lambda: seen.append(os.environ.get("OPENBLAS_NUM_THREADS")))
    main.main()
    assert seen == [expected]
