"""Shared set-up: the slow oracles are importable as `naive`; in CI, hypothesis draws the same examples each time."""

import os
import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))
# interpreted, kernels are functions like any other, and that file would take them for public ones
collect_ignore = ["test_checks.py"] if "NUMBA_DISABLE_JIT" in os.environ else []
settings.register_profile("ci", derandomize=True, deadline=None)
if os.environ.get("CI"):
    settings.load_profile("ci")


def pytest_collection_modifyitems(items):
    """Begin with what takes longest, so that no worker is left alone with it at the end."""
    items.sort(key=lambda item: item.get_closest_marker("first") is None)


def pytest_terminal_summary(terminalreporter):
    """Print the figures that tests have recorded."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            terminalreporter.write_line(f"{name}: {value}")
