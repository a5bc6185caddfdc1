"""What a simulation returns: numbers with their errors, and how they were reached."""

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from lbcore.records import Record


@dataclass(frozen=True, eq=False, repr=False)
class Estimate(Record):
    """A number, or an array of numbers, with its 95 % confidence interval (pointwise for an array)."""

    value: Any  # float or ndarray, nan where nothing was observed
    half_width: Any  # of the same shape, there infinite

    @property
    def low(self):
        """Lower end of the interval."""
        return self.value - self.half_width

    @property
    def high(self):
        """Upper end of the interval."""
        return self.value + self.half_width

    def _repr_html_(self):
        return repr(self)

    def __repr__(self):
        if np.ndim(self.value):
            widest = np.max(self.half_width, initial=0.0)
            return f"array of shape {np.shape(self.value)}, half-widths up to {widest:.2g} (95 %)"
        digits = 1 - math.floor(math.log10(self.half_width)) if 0.0 < self.half_width < math.inf else -1
        if 0 <= digits <= 6:
            return f"{self.value:.{digits}f} ± {self.half_width:.{digits}f} (95 %)"
        return f"{self.value:.6g} ± {self.half_width:.2g} (95 %)"


@dataclass(frozen=True, eq=False, repr=False)
class Simulation(Record):
    """What was asked, the estimates, and how they were reached.

    Entries of `asked` and of `estimates` are attributes too: ``result.policy``, ``result.mean_total``.
    """

    asked: dict  # seed and number of replications included
    estimates: dict  # mostly Estimates; also exact values that belong beside them
    steps: int  # run by all replications together, warm-up included
    unit: str  # what a step is
    warm_up: int  # steps dropped at the start of a replication, see lbcore.simulate.intervals
    complete: bool  # False for a result on the way, or of a run that was stopped
    believable: bool  # False if the run is too short for its start to be forgotten; a note says so
    seconds: float  # by the clock on the wall, since the start of the run
    version: str  # of the package
    notes: tuple = ()  # warnings, as sentences: read them before the numbers

    def __getattr__(self, name):
        for entries in (self.__dict__.get("estimates", {}), self.__dict__.get("asked", {})):
            if name in entries:
                return entries[name]
        raise AttributeError(f"a simulation has no {name!r}; it has {', '.join(self.__dir__())}")

    def __dir__(self):
        named = [*self.__dict__.get("estimates", {}), *self.__dict__.get("asked", {})]
        return [*(n for n in object.__dir__(self) if not n.startswith("_")), *named]

    def dict(self):
        """Return what was asked, the estimates and how they were reached as a plain dict of dicts."""
        plain = {name: x.dict() if isinstance(x, Estimate) else x for name, x in self.estimates.items()}
        run = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("asked", "estimates")}
        return {"asked": {**self.asked}, "estimates": plain, "run": run}

    def _rows(self):
        yield from ((name, str(value)) for name, value in (*self.asked.items(), *self.estimates.items()))
        warm_up = f"warm-up {self.warm_up} in each replication"
        yield "run", f"{self.steps} {self.unit} in {self.seconds:.2f} s, {warm_up}"
        if not self.complete:
            yield "", "stopped or under way: not complete"
        yield from (("note", note) for note in self.notes)
