"""Service times measured by the reader: a file in, its empirical law and a few sentences about it out."""

import math

import numpy as np

from lbcore.chance import laws


def read_service_times(path):
    """Return the empirical law, stretched to mean 1, of the service times in the first column of a CSV file.

    Parameters
    ----------
    path : str or Path
        One number >= 0 a row, an optional heading, further columns ignored; at most some million rows.

    Returns
    -------
    DiscreteLaw

    Raises
    ------
    FileNotFoundError
    ValueError
        The file is empty, or a row is no number, negative, infinite or NaN; the message names the row.
    """
    numbers = []
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        for row, line in enumerate(file, 1):
            cell = line.split(",", 1)[0].strip().strip('"')
            try:
                number = float(cell)
            except ValueError:
                if not cell or row == 1:
                    continue
                number = math.nan
            if not 0.0 <= number < math.inf:
                raise ValueError(f"row {row} of {path} holds {cell!r}; a service time must be a finite number >= 0")
            numbers.append(number)
    if not numbers:
        raise ValueError(f"{path} holds no service times; it must have one number >= 0 in each row")
    return laws.empirical(numbers)


def describe_law(law):
    """Return sentences about an empirical law, in the units of its file: mean, cv², tail. Nothing is fitted."""
    values, weights = law.points, law.probabilities
    mean, upto = values @ weights, np.cumsum(weights)
    quantiles = [values[min(np.searchsorted(upto, q), values.size - 1)] for q in (0.5, 0.9, 0.99)]
    top = 1.0 - upto < 0.01
    return (
        f"{law}, {values.size} different values: mean {mean:.6g}, cv² = {law.cv2:.4g}; stretched to mean 1 from here.\n"
        f"Median {quantiles[0]:.4g}, 90 % below {quantiles[1]:.4g}, 99 % below {quantiles[2]:.4g}, "
        f"largest {values[-1]:.4g}.\n"
        f"The largest hundredth of the jobs brings {100 * values[top] @ weights[top] / mean:.3g} % of the work. Beyond "
        "the largest value this law has no tail: what a heavier tail would do, the data cannot say."
    )
