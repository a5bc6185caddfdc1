"""A picture with and without sliders: a function from their values to rows of plots, see `lbcore.show.plots`."""

import itertools
import warnings
from dataclasses import dataclass

from lbcore.show.plots import plain, short


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture with and without sliders: a `function` of the values of `controls`, `panels` plots in each row."""

    name: str
    function: object
    controls: dict
    panels: tuple = (1,)
    scale: float = 1.0
    aspect: float = 0.66

    @property
    def start(self):
        """The values at which the sliders start."""
        return {name: control.start for name, control in self.controls.items()}

    def plots(self, *, refinements=None, **values):
        """Return rows of `Plot`; `values` replace those at which the sliders start, and need not be on them.

        Of a picture that refines: the last, or the one after so many `refinements`.
        """
        rows = self.function(**self.start | values)
        if hasattr(rows, "__next__"):
            *_, rows = itertools.islice(rows, refinements)
        return rows

    def figure(self, *, refinements=None, pictures=None, **values):
        """Return the static figure, a `figures.Board`, of what `plots` returns."""
        if pictures is not None:
            warnings.warn("pictures= is now called refinements=", FutureWarning, stacklevel=2)
        rows = self.plots(refinements=refinements or pictures, **values)
        return figure(rows, scale=self.scale, aspect=self.aspect, text=self.describe(rows, values))

    def text(self, *, refinements=None, **values):
        """Return alternative text, built from the data: what is shown, at which values, curves and numbers."""
        return self.describe(self.plots(refinements=refinements, **values), values)

    def describe(self, rows, values):
        """Return the alternative text of `rows`, computed at `values`."""
        what = (self.function.__doc__ or self.name).strip().split("\n")[0]
        known = self.start | values
        at = ", ".join(f"{control.label} {short(known[name])}" for name, control in self.controls.items())
        return " ".join([what, *([f"{at}."] * bool(at)), *map(_words, itertools.chain(*rows))])

    def explore(self):
        """Return the picture with sliders."""
        from lbcore.show import explore  # widgets are imported when first asked for

        return explore.Explorer(self)


def picture(name, *, panels=(1,), scale=1.0, aspect=0.66, **controls):
    """Make a `Picture` of a function from slider values to rows of `Plot`, ``panels[i]`` of them in row i."""
    return lambda function: Picture(name, function, controls, panels, scale, aspect)


def figure(rows, *, scale=1.0, aspect=0.66, text=""):
    """Draw rows of `Plot` as a static figure, a `figures.Board`."""
    from lbcore.show import figures  # matplotlib is imported when first asked for

    board = figures.Board([len(row) for row in rows], width=scale * figures.SCREEN["width"], aspect=aspect)
    return board.draw(rows, text=text)


def _words(plot):
    """Say in words what a plot shows; markers with their values."""
    names = [f"{m.name} = {m.columns['y'][0]:.4g}" if m.form == "marker" and m.believable else
             m.name if m.name == m.kind else f"{m.name} ({m.kind})" for m in plot.marks if m.named]  # fmt: skip
    return plain(". ".join(filter(None, [f"{plot.title}: {'; '.join(names)}", plot.note]))) + "."
