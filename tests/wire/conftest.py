"""Comparisons show what differs."""

import pytest

pytest.register_assert_rewrite("wire.comparing", "wire.objects")
