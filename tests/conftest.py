"""Shared set-up: the slow oracles are importable as `naive`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
