"""All results look alike: a line each for what was asked, the answer and its error."""

from dataclasses import FrozenInstanceError, dataclass

import numpy as np
import pytest

from lbcore.records import Record


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Law(Record):
    """An example."""

    beta: float
    n_servers: int
    weights: np.ndarray
    ends: tuple
    error: float
    _secret: object = None

    _also = ("twice",)

    @property
    def twice(self):
        return 2 * self.beta


def example(weights):
    return Law(beta=1 / 3, n_servers=10, weights=weights, ends=(0.25, 1), error=1.2345e-9)


def test_a_record_shows_its_fields_a_line_each_and_arrays_by_shape():
    assert repr(example(np.array([[0.5, 0.125]]))).splitlines() == [
        "Law",
        "  beta       0.3333333333",
        "  n_servers  10",
        "  weights    array of shape (1, 2), from 0.125 to 0.5",
        "  ends       (0.25, 1)",
        "  error      1.2e-09",
        "  twice      0.6666666667",
    ]
    assert "  weights    array of shape (0,)\n" in repr(example(np.array([])))
    assert "  weights    2.5\n" in repr(example(np.array(2.5)))


def test_a_record_is_a_table_in_notebooks():
    shown = example(np.ones(3))._repr_html_()
    assert shown.startswith("<table><caption>Law</caption><tr><th>beta</th><td>0.3333333333</td></tr>")
    assert shown.count("<tr>") == 6


def test_the_plain_view_holds_the_public_fields_in_order():
    weights = np.ones(3)
    plain = example(weights).dict()
    assert list(plain) == ["beta", "n_servers", "weights", "ends", "error"]
    assert plain["weights"] is weights
    assert plain["beta"] == 1 / 3


def test_records_are_built_by_keyword_and_frozen():
    with pytest.raises(TypeError, match="positional"):
        Law(1.0, 2, None, (), 0.0)
    with pytest.raises(FrozenInstanceError):
        example(np.ones(1)).beta = 2.0
