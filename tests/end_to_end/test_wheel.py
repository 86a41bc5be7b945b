"""The wheel and the sdist contain the right files.

The wheel works in an empty environment with its declared requirements only.
"""

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


def build_wheel(source: Path, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", folder]
    subprocess.run([*command, source], check=True)
    return next(folder.glob("regard-*.whl"))


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder], check=True, cwd=ROOT)
    return next(folder.glob("regard-*.tar.gz"))


def needs(wheel: Path) -> set[str]:
    """The direct and indirect requirements of the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = archive.read(name).decode().splitlines()
    waiting = [(line.removeprefix("Requires-Dist: "), "") for line in lines if line.startswith("Requires-Dist: ")]
    found: set[str] = set()
    while waiting:
        text, extra = waiting.pop()
        requirement = Requirement(text)
        name = canonicalize_name(requirement.name)
        if name in found or (requirement.marker and not requirement.marker.evaluate({"extra": extra})):
            continue
        found.add(name)
        for more in ("", *requirement.extras):
            waiting += [(line, more) for line in metadata.requires(name) or ()]
    return found


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment whose packages are links to those of this one, so that nothing is downloaded."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    target = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder), "platbase": str(folder)}))
    for name in needs(wheel):
        distribution = metadata.distribution(name)
        for top in {file.parts[0] for file in distribution.files or () if ".." not in file.parts}:
            source = Path(str(distribution.locate_file(top)))
            if source.exists() and not (target / top).exists():
                (target / top).symlink_to(source)
    install = ["install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", "--python", folder / "bin" / "python", *install], check=True)
    return folder


def run(environment: Path, *command: str) -> str:
    program, *arguments = command
    result = subprocess.run(
        [environment / "bin" / program, *arguments],
        capture_output=True,
        text=True,
        cwd=environment,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_wheel_contains_every_file_of_the_package(wheel: Path) -> None:
    inside = {name for name in names(wheel) if name.startswith("regard/")}
    here = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "regard").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert inside == here
    for part in ("recipes/translate/transformer.toml", "assets/en-es/model.safetensors", "serve/page/index.html"):
        assert f"regard/{part}" in inside


def test_the_wheel_states_the_licences_of_the_code_and_of_the_bundled_models(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (path,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata_lines = archive.read(path).decode().splitlines()
        notice = archive.read(path.replace("METADATA", "licenses/NOTICE")).decode()
    assert "License-Expression: Apache-2.0 AND CC-BY-SA-4.0 AND LicenseRef-CC-BY-2.0-FR" in metadata_lines
    assert {"License-File: LICENSE", "License-File: NOTICE"} <= set(metadata_lines)
    assert "Tatoeba and its contributors" in notice


def test_the_sdist_contains_only_files_to_build_and_test_it(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    folders = {name.partition("/")[0] for name in inside if "/" in name}
    assert folders == {"src", "tests", "benchmarks", "docs", "examples", "tools"}
    files = ("pyproject.toml", "constraints.txt", "requirements.lock", "Makefile", "LICENSE", "NOTICE", "README.md")
    assert inside >= {*files, "CHANGELOG.md"}
    # no runs, environments, caches or packages of the page's tools, which are in the folder of a developer
    unwanted = {"runs", "node_modules", ".venv", "__pycache__", ".hypothesis", ".mypy_cache", "dist"}
    assert not [name for name in inside if unwanted & set(name.split("/"))]
    tests = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("*.py")}
    assert tests <= inside


def test_a_wheel_built_from_the_sdist_is_the_same(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    from_sdist = build_wheel(sdist, tmp_path)
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(from_sdist) as other:
        assert {each.filename: each.CRC for each in one.infolist()} == {e.filename: e.CRC for e in other.infolist()}


def test_the_environment_contains_only_the_requirements(environment: Path) -> None:
    code = "import importlib.util as u; print([m for m in ('pytest', 'transformers', 'matplotlib') if u.find_spec(m)])"
    assert run(environment, "python", "-c", code) == "[]\n"
    where = run(environment, "python", "-c", "import regard; print(regard.__file__)").strip()
    assert Path(where).is_relative_to(environment)


def test_the_command_works(environment: Path) -> None:
    assert run(environment, "regard", "--version").startswith("regard ")
    assert "translate/transformer" in run(environment, "regard", "recipes")
    assert "decoder.layers.*.cross" in run(environment, "regard", "describe", "translate/transformer")
    assert run(environment, "regard", "translate", "we are eating bread")


def test_a_feature_without_its_extra_names_the_extra(environment: Path) -> None:
    command = [environment / "bin" / "regard", "explore", "--no-browser", "--port", "0"]
    without_path = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(command, capture_output=True, text=True, cwd=environment, env=without_path, check=False)
    assert result.returncode == 1
    assert "pip install 'regard[serve]'" in result.stderr


def test_the_library_works(environment: Path) -> None:
    code = """
import torch
from regard.blocks.capture import capture
from regard.recipe import read
model = read("translate/transformer", ["model.preset=tiny"]).model.build()
with capture(model, "*.cross") as maps:
    model(torch.ones(2, 3, dtype=torch.long), torch.ones(2, 4, dtype=torch.long))
print(len(maps), tuple(maps["decoder.layers.0.cross"].shape))
"""
    assert run(environment, "python", "-c", code) == "4 (2, 4, 4, 3)\n"
