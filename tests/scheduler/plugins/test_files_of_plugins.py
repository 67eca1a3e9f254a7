"""Every in-tree plugin has a file or a folder of tests under its name."""

from pathlib import Path

import pytest

from stowplan.scheduler.plugins.registry import IN_TREE

HERE = Path(__file__).parent
BY_KIND_OF_DISK = {"MaxEBSVolumeCount", "MaxGCEPDVolumeCount", "MaxAzureDiskVolumeCount"}
"""Three plugins with one rule: nodevolumelimits/test_maxvolumecount_by_kind.py."""


@pytest.mark.parametrize("name", sorted(IN_TREE.keys() - BY_KIND_OF_DISK))
def test_a_plugin_is_found_by_its_name(name: str) -> None:
    lower = name.lower()
    files = [*HERE.glob(f"**/test_{lower}*.py"), *HERE.glob(f"{lower}/test_*.py")]
    assert files
