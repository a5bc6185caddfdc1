"""Reading service times from a file, and what is said of them."""

import numpy as np
import pytest

from lbcore import theory
from lbcore.chance import laws, service_data


def written(folder, text):
    path = folder / "times.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no service times"),
        ("seconds\n", "holds no service times"),
        ("1\n2\nabc\n", "row 3 .* holds 'abc'"),
        ("1\n-2\n", "row 2 .* holds '-2'"),
        ("t\n1\nnan\n", "row 3"),
        ("1\ninf\n", "row 2"),
        ("0\n0\n", "always 0"),
    ],
)
def test_bad_files_say_which_row(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        service_data.read_service_times(written(tmp_path, text))


def test_good_files_work(tmp_path):
    one = service_data.read_service_times(written(tmp_path, "5\n"))
    assert one.cv2 == 0
    assert "1 different values" in service_data.describe_law(one)
    law = service_data.read_service_times(written(tmp_path, 'seconds,who\n1,a\n\n"3",b\n'))
    assert law.values.tolist() == [0.5, 1.5]
    many = np.random.default_rng(1).exponential(size=1_000_000)
    path = tmp_path / "many.csv"
    np.savetxt(path, many)
    law = service_data.read_service_times(path)
    assert law.cv2 == pytest.approx(1, abs=0.02)
    assert theory.cycle_bound(law, 0.5, 1.0) == pytest.approx(
        theory.cycle_bound(laws.exponential(), 0.5, 1.0), rel=0.02
    )
