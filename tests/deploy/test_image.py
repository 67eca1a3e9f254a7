"""Facts of the Dockerfile that something else depends on."""

import fnmatch
import json
import re
import tomllib

from deploy.manifests import DEPLOY, OVERLAYS, ROOT, pod_spec


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions with what stands behind them, comments and line ends taken out."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(line.split(None, 1)[0], " ".join(line.split()[1:])) for line in lines if line.strip()]


def all_of(name: str) -> list[str]:
    return [rest for instruction, rest in instructions() if instruction == name]


def ignored(path: str) -> bool:
    """True if a file at the top is kept from the image: the last line that matches counts."""
    verdict = False
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        if line and not line.startswith("#") and fnmatch.fnmatch(path, line.removeprefix("!")):
            verdict = not line.startswith("!")
    return verdict


def test_it_starts_the_scheduler_and_passes_flags_on() -> None:
    (entrypoint,) = all_of("ENTRYPOINT")
    assert json.loads(entrypoint) == ["stowplan", "run"]
    assert not all_of("CMD")
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert "stowplan" in scripts


def test_its_python_is_one_the_package_supports() -> None:
    stages = all_of("FROM")
    assert [stage.split()[0] for stage in stages] == ["python:3.11-slim"] * 2
    assert stages[0].endswith("AS build")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">=3.11"


def test_it_does_not_run_as_root_but_as_the_manifests_say() -> None:
    names = [name for name, _ in instructions()]
    assert names.index("USER") > max(place for place, name in enumerate(names) if name in ("RUN", "COPY"))
    (user,) = all_of("USER")
    for overlay in OVERLAYS:
        security = pod_spec(overlay)["securityContext"]
        assert user == f"{security['runAsUser']}:{security['runAsGroup']}"


def test_what_it_copies_exists_and_is_not_ignored() -> None:
    first, *rest = [copied for copied in all_of("COPY") if not copied.startswith("--from=")]
    sources = [source for copied in (first, *rest) for source in copied.split()[:-1]]
    assert set(sources) >= {"pyproject.toml", "README.md", "src"}
    for source in sources:
        assert (ROOT / source).exists(), source
        assert not ignored(source), source


def test_nothing_else_of_the_repository_gets_into_it() -> None:
    for name in (".git", ".venv", "tests", "deploy", "docs", "Makefile"):
        assert ignored(name), name


def test_what_it_takes_over_from_the_build_is_where_the_build_put_it() -> None:
    (taken,) = (copied for copied in all_of("COPY") if copied.startswith("--from=build"))
    _, there, here = taken.split()
    assert there == here
    assert any(f"venv {there}" in run for run in all_of("RUN"))
    assert f"PATH={here}/bin:$PATH" in all_of("ENV")[0].split()
    assert all_of("EXPOSE") == ["10259"]


def test_files_it_cannot_do_without_are_kept_in_memory() -> None:
    assert "TMPDIR=/dev/shm" in all_of("ENV")[0].split()
