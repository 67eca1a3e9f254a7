"""Import paths that docs/stability.md lists, and those that the docs named before packages moved."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import stowplan
from stowplan.runtime.formerpaths import FORMER

PACKAGE = Path(stowplan.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "stability.md"

TABLE = PAGE.read_text().partition("### Import paths")[2].partition("\n## ")[0]
ROWS = [line.split(" | ") for line in TABLE.splitlines() if line.startswith("| `")]
LISTED = [
    path for row in ROWS if not row[-1].startswith("deprecated") for path in re.findall(r"`([\w.]+)`", row[0])
]
NAMES = [
    ("stowplan.clock", "run"),
    ("stowplan.embedded.store", "Store"),
    ("stowplan.embedded.client", "InProcessClient"),
    ("stowplan.embedded.admission", "ClusterAdmission"),
    ("stowplan.extenders.http", "extenders_for"),
    ("stowplan.recording", "decisions"),
    ("stowplan.releases", "release"),
    ("stowplan.framework", "Plugin"),
    ("stowplan.testing", "live_cluster"),
    ("stowplan.testing.faults", "FaultyClient"),
    ("stowplan.testing.groups", "pod_group"),
    ("stowplan.explain", "explain"),
    ("stowplan.simulate", "Cluster"),
    ("stowplan.simulate.fit", "fit_max"),
    ("stowplan.simulate.whatif", "rolling_drain"),
    ("stowplan.simulate.rollout", "rolled_out"),
    ("stowplan.simulate.capacity", "sets_that_fit"),
    ("stowplan.simulate.rebalance", "rebalance"),
    ("stowplan.simulate.changes", "Change"),
    ("stowplan.gpushare", "GpuPacking"),
    ("stowplan.gpushare", "typical_pods"),
    ("stowplan.scheduler", "Scheduler"),
    ("stowplan.config", "load_file"),
    ("stowplan.api.catalogue", "PODS"),
]
"""Names that README, docs and examples of version 0.1 imported or named."""


@pytest.mark.parametrize("path", LISTED)
def test_a_listed_path_can_be_imported(path: str) -> None:
    assert import_module(path).__doc__


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("path", "name"), NAMES, ids=".".join)
def test_names_that_docs_used_are_where_they_were(path: str, name: str) -> None:
    assert hasattr(import_module(path), name)


def test_the_former_paths_are_listed() -> None:
    [row] = [row for row in ROWS if row[-1].startswith("deprecated")]
    assert re.findall(r"`([\w.]+)`", row[0]) == sorted(FORMER)


def test_a_former_path_gives_the_same_module_and_a_warning() -> None:
    code = (
        "import warnings; warnings.simplefilter('error')\n"
        "try:\n    import stowplan.clock\n"
        "except DeprecationWarning as told:\n    print(told)\n"
        "warnings.simplefilter('ignore')\n"
        "from stowplan.embedded.store import Store\n"
        "from stowplan.localcluster.store import Store as present\n"
        "import stowplan.localcluster.store as module\n"
        "print(Store is present, module.__name__, module.__spec__.name)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == [
        "stowplan.clock is stowplan.runtime.clock now",
        "True stowplan.localcluster.store stowplan.localcluster.store",
    ]


def test_the_package_has_at_most_16_entries() -> None:
    """Besides the three files that a typed package with a command has to have."""
    entries = {path.name for path in PACKAGE.iterdir() if path.name != "__pycache__"}
    assert entries >= {"__init__.py", "__main__.py", "py.typed"}
    assert len(entries - {"__init__.py", "__main__.py", "py.typed"}) <= 16
