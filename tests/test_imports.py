"""Which other packages each package of Regard imports."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "regard"
EXTRAS = {
    "codecs/image_files.py": {"PIL"},
    "explain/figures.py": {"matplotlib"},
    "interop/ct2.py": {"ctranslate2"},
    "interop/ct2_inference.py": {"ctranslate2"},
    "interop/hub.py": {"huggingface_hub"},
    "interop/onnx.py": {"onnx", "onnxruntime"},
    "serve/access.py": {"fastapi", "starlette"},
    "serve/app.py": {"fastapi", "starlette"},
    "serve/limits.py": {"fastapi", "starlette"},
    "serve/server.py": {"fastapi", "uvicorn"},
    "serve/worker.py": {"starlette"},
    "tasks/parquet.py": {"pyarrow"},
    "training/board.py": {"tensorboard"},
}
SERVER = [path for path in EXTRAS if path.startswith("serve/")]  # its modules import each other


def imported(path: Path) -> set[str]:
    """The full names of the modules that a file imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return {name for name in names if name.partition(".")[0] not in sys.stdlib_module_names}


@pytest.mark.parametrize("path", sorted((SOURCE / "blocks").glob("*.py")), ids=lambda path: path.stem)
def test_blocks_import_only_torch(path) -> None:
    ours = ("regard.blocks", "regard.errors")
    assert all(name.split(".")[0] == "torch" or name.startswith(ours) for name in imported(path))


def test_every_imported_package_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    declared = {re.split(r"[<>=\[]", line)[0] for line in project["dependencies"]}
    # pydantic installs pydantic_core
    packages = {"pydantic_core": "pydantic"}
    for path in SOURCE.rglob("*.py"):
        used = {name.partition(".")[0] for name in imported(path)} - {"regard"}
        optional = EXTRAS.get(path.relative_to(SOURCE).as_posix(), set())
        assert {packages.get(name, name) for name in used} <= declared | optional, path


@pytest.mark.parametrize(
    "needy", [[path] for path in EXTRAS if path not in SERVER] + [SERVER], ids=lambda paths: paths[0]
)
def test_modules_that_need_an_extra_are_imported_only_on_use(needy) -> None:
    modules = ["regard." + path.removesuffix(".py").replace("/", ".") for path in needy]
    code = (
        "import pkgutil, sys, regard\n"
        "for m in pkgutil.walk_packages(regard.__path__, 'regard.'):\n"
        f"    if m.name not in [*{modules!r}, 'regard.__main__']: __import__(m.name)\n"
        f"assert not {{*{modules!r}}} & sys.modules.keys()"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


ELSEWHERE = """
import os, pkgutil, sys
import regard

def import_all():
    for module in pkgutil.walk_packages(regard.__path__, "regard."):
        if module.name != "regard.__main__":
            __import__(module.name)
    return {name for name in sys.modules if name.partition(".")[0] == "regard"}

before = import_all()  # once as it is, for the packages of others
for name in before:
    del sys.modules[name]
sys.platform = sys.argv[1]
del os.sched_getaffinity
if sys.platform == "win32":
    del os.sysconf, os.sysconf_names, os.fork, os.uname
    sys.modules["resource"] = sys.modules["fcntl"] = None
import regard
assert import_all() == before

import torch
from regard import process_memory as memory
from regard.training import machine
memory.keep_memory(), memory.release_memory()
assert (memory.peak(torch.device("cpu")) == 0) == (sys.platform == "win32")
assert (machine.memory() == 0) == (sys.platform == "win32")
assert machine.threads() >= 1
"""


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_all_modules_can_be_imported_on_other_systems(system) -> None:
    found = subprocess.run([sys.executable, "-c", ELSEWHERE, system], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
