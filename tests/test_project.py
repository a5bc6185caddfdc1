"""The project's files agree with each other."""

import ast
import graphlib
import inspect
import json
import operator
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
GROUND = {"checks", "compiled", "records"}
KNOWS = {  # wing: the wings that it may import from, besides the ground floor and itself
    "chance": set(),
    "simulate": {"chance"},
    "theory": {"chance"},
    "show": set(),
    "pictures": {"chance", "simulate", "theory", "show"},
}


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
        "import sys, lbcore; assert not {'matplotlib', 'ipywidgets', 'numba', 'scipy'} & set(sys.modules); "
        "[getattr(lbcore, name) for name in dir(lbcore)]; "
        "[getattr(wing, name) for wing in (lbcore.theory, lbcore.simulate) for name in dir(wing)]; "
        "assert repr(lbcore.jsq()) == 'JSQ' and lbcore.jsq.diffusion_law(1.0).beta == 1.0; "
        "lbcore.pictures.jsq; assert not {'matplotlib', 'ipywidgets'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, cwd=ROOT)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = lbcore.nothing


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("gallery_jbt.u_shape", "pictures.jbt.u_shape"),
        ("gallery_jsq_finite.transient", "pictures.jsq_finite.transient"),
        ("hitting.fall_times", "theory.fall_times"),
        ("paths.sample_states", "simulate.sample_states"),
        ("jsq.transient_law", "theory.transient_law"),
        ("jiq.simulate_path", "simulate.simulate_path"),
    ],
)
def test_old_names_work_with_one_line_of_warning(old, new):
    find = operator.attrgetter
    with pytest.warns(FutureWarning, match=r"^lb\..* is called lb\..* now") as caught:
        found = find(old)(lbcore)
    assert found is find(new)(lbcore)
    assert [warning.filename for warning in caught] == [__file__]


def test_papers_go_by_the_names_of_their_policies():
    assert lbcore.jbt(3).parameter == 3
    assert lbcore.jbt.two_server_law is lbcore.theory.two_server_law
    assert "by_rate" in inspect.signature(lbcore.jbt).parameters
    assert "heavy_traffic_limit" in dir(lbcore.jbt)
    with pytest.raises(AttributeError, match=r"lb\.jsq has no 'nothing'"):
        _ = lbcore.jsq.nothing


def imported(path):
    """Return the modules of the package that a file imports, as dotted names."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name for name in names if name.startswith("lbcore.")}


@pytest.mark.parametrize("wing", KNOWS)
def test_arrows_between_wings_run_one_way(wing):
    """Theory and simulate do not know each other, show knows neither, only pictures know all."""
    for path in (ROOT / "lbcore" / wing).glob("*.py"):
        used = {name.split(".")[1] for name in imported(path)} - {"__version__", "lazy"}
        assert used <= GROUND | KNOWS[wing] | {wing}, path


def test_the_ground_floor_knows_no_wing_and_files_import_each_other_in_no_circle():
    package = ROOT / "lbcore"
    files = {".".join(p.relative_to(ROOT).with_suffix("").parts): p for p in package.rglob("*.py")}
    files = {name: path for name, path in files.items() if path.name not in ("__init__.py", "__main__.py")}
    assert {p.stem for p in package.glob("*.py")} == {*GROUND, "__init__", "__main__"}
    for name in GROUND:
        assert {used.split(".")[1] for used in imported(package / f"{name}.py")} <= GROUND
    arrows = {name: imported(path) & set(files) for name, path in files.items()}
    assert sum(map(len, arrows.values())) > 50
    tuple(graphlib.TopologicalSorter(arrows).static_order())  # raises CycleError


def test_the_house_stays_small():
    lines = {p: len(p.read_text().splitlines()) for p in (ROOT / "lbcore").rglob("*.py")}
    assert max(lines.values()) <= 450, max(lines, key=lines.get)
    wings = [p for p in (ROOT / "lbcore").iterdir() if p.is_dir() and p.name != "__pycache__"]
    assert {p.name for p in wings} == set(KNOWS)


def test_heavy_packages_are_imported_in_one_file_each():
    heavy = {"matplotlib": "show/figures.py", "ipywidgets": "show/explore.py"}
    for path in (ROOT / "lbcore").rglob("*.py"):
        for package, owner in heavy.items():
            found = re.search(rf"^\s*(import|from) {package}", path.read_text(), re.MULTILINE)
            assert not found or path == ROOT / "lbcore" / owner, path
