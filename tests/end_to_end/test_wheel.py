"""The wheel, installed into an empty environment with what it says it needs and nothing else, works there."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", folder, ROOT]
    subprocess.run(command, check=True)
    return next(folder.glob("regard-*.whl"))


def needs(wheel: Path) -> set[str]:
    """The packages that the wheel requires, and those that they require, and so on."""
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
    """A new environment: its packages are links to those of this one, so that no download is needed."""
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


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if name.startswith("regard/")}
    here = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "regard").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert inside == here
    assert any(name.startswith("regard/recipes/") for name in inside)
    assert any(name.startswith("regard/assets/") for name in inside)


def test_the_environment_is_empty_but_for_what_is_needed(environment: Path) -> None:
    code = "import importlib.util as u; print([m for m in ('pytest', 'transformers', 'matplotlib') if u.find_spec(m)])"
    assert run(environment, "python", "-c", code) == "[]\n"
    where = run(environment, "python", "-c", "import regard; print(regard.__file__)").strip()
    assert Path(where).is_relative_to(environment)


def test_the_command_works(environment: Path) -> None:
    assert run(environment, "regard", "--version").startswith("regard ")
    assert "translate/transformer" in run(environment, "regard", "recipes")
    assert "decoder.layers.*.cross" in run(environment, "regard", "describe", "translate/transformer")


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
