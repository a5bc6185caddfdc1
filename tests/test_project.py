"""The project's files agree with each other."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import lbcore

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONDA_NAMES = {"matplotlib-base": "matplotlib"}
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LOCK = (ROOT / "requirements.lock").read_text()


def test_environment_yml_names_the_same_packages_and_bounds():
    wanted = {"python": SpecifierSet(PROJECT["requires-python"])}
    for requirement in map(Requirement, PROJECT["dependencies"]):
        wanted[canonicalize_name(requirement.name)] = requirement.specifier
    found = {}
    for entry in yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]:
        if entry == "pip":
            continue
        if isinstance(entry, dict):
            assert entry == {"pip": ["-e ."]}
            continue
        name, _, bounds = entry.partition(" ")
        found[CONDA_NAMES.get(name, name)] = SpecifierSet(bounds)
    assert found == wanted


def test_lock_file_pins_every_requirement_with_hashes_and_no_index():
    pins = dict(re.findall(r"^([a-z0-9._-]+)==([^ \\]+)", LOCK, re.MULTILINE))
    requirements = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["test"]
    for requirement in map(Requirement, requirements):
        assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), requirement
    blocks = re.split(r"\n(?=\S)", LOCK.strip())
    assert all("--hash=sha256:" in block for block in blocks)
    assert "://" not in LOCK
    assert "index" not in LOCK


def test_versions_agree():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == lbcore.__version__
    assert f"## {lbcore.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_readme_gives_both_commands_and_make_help_lists_them():
    readme = (ROOT / "README.md").read_text()
    assert "make lab" in readme
    assert "make test" in readme
    shown = subprocess.run(["make", "help"], cwd=ROOT, text=True, capture_output=True, check=True).stdout
    for target in ("lab", "test", "figures", "bench", "lint"):
        assert f"make {target}" in shown


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebooks_are_committed_without_outputs(path):
    notebook = json.loads(path.read_text())
    assert "widgets" not in notebook["metadata"]
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None


def test_import_is_light_and_complete():
    code = (
        "import sys, lbcore; assert not {'matplotlib', 'ipywidgets', 'numba'} & set(sys.modules); "
        "[getattr(lbcore, name) for name in lbcore.__all__]; assert set(lbcore.__all__) <= set(dir(lbcore)); "
        "assert repr(lbcore.jsq()) == 'JSQ' and lbcore.jsq.diffusion_law(1.0).beta == 1.0"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = lbcore.nothing


def test_arrows_run_one_way():
    """Each module imports only modules that stand before it in this order."""
    order = [
        "compiled", "checks", "streams", "policies", "draws", "laws", "results", "intervals", "estimate", "lanes",
        "markov", "profile", "idle_or_busy", "queue_lengths", "workload", "transient", "pooled", "slotted", "jbt",
        "jiq", "finite", "mmn", "jsq", "paths", "hitting", "figures", "explore", "gallery_jbt", "gallery_jiq",
        "gallery_jsq", "gallery_jsq_finite", "__main__",
    ]  # fmt: skip
    assert {p.stem for p in (ROOT / "lbcore").glob("*.py")} == {*order, "__init__"}
    for path in (ROOT / "lbcore").glob("*.py"):
        if path.stem == "__init__":
            continue
        used = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "lbcore":
                used |= {alias.name for alias in node.names} - {"__version__"}
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lbcore."):
                used.add(node.module.split(".")[1])
        assert all(order.index(name) < order.index(path.stem) for name in used), path
        heavy = {"matplotlib": "figures", "ipywidgets": "explore"}
        text = path.read_text()
        for package, owner in heavy.items():
            assert path.stem == owner or not re.search(rf"^\s*(import|from) {package}", text, re.MULTILINE), path
