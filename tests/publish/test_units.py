"Private units: what a notebook should not carry."

import json

import numpy as np
import pytest

from privglasso.base.validation import InputError
from privglasso.privacy.sampler import bit_source
from privglasso.publish import units
from privglasso.publish.units import UnitsPlan, find_units, plan_units


def test_a_plan_survives_json():
    plan = plan_units(3000, 5, 0.4)
    again = UnitsPlan.from_settings(json.loads(json.dumps(plan.settings())))
    assert again.levels == plan.levels and again.squared_mu == plan.squared_mu
    cell, record = plan.guarantee("cell").mu, plan.guarantee("record").mu
    assert record**2 == pytest.approx(plan.squared_mu)
    assert cell**2 == pytest.approx(plan.squared_mu / 5)


@pytest.mark.parametrize("sigma", [0.1, -3.0, float("nan")])
def test_a_tampered_plan_is_refused(sigma):
    settings = plan_units(3000, 5, 0.4).settings()
    settings["sigma"]["near"] = sigma
    with pytest.raises(InputError) as error:
        UnitsPlan.from_settings(settings)
    assert error.value.argument == "sigma"


def test_equal_inputs_give_equal_units():
    values = np.random.default_rng(0).normal(3, 2, (3000, 3))
    plan = plan_units(3000, 3, 0.4)
    one, two = (find_units(values, plan, bit_source(1)) for _ in range(2))
    np.testing.assert_array_equal(one.center, two.center)
    np.testing.assert_array_equal(one.scale, two.scale)


def test_another_shape_is_refused():
    with pytest.raises(InputError) as error:
        find_units(np.zeros((10, 3)), plan_units(3000, 3, 0.4), bit_source(1))
    assert error.value.argument == "values"


@pytest.mark.parametrize("n, p, mu", [(3000, 200, 1.0), (1000, 1, 5.0), (2001, 7, 0.5)])
def test_many_shapes(n, p, mu):
    generator = np.random.default_rng(2)
    scale = 2.0 ** generator.uniform(-900, 900, p)
    values = scale * (generator.normal(size=(n, p)) + 1e4)
    plan = plan_units(n, p, mu)
    units = find_units(values, plan, bit_source(3))
    assert plan.squared_mu <= mu**2 / 2 and units.found.all()
    assert np.abs(np.log2(units.scale / scale)).max() < np.log2(3)
    assert np.abs(units.center / scale - 1e4).max() < 1.5


def test_a_long_table_is_counted_within_its_public_part(monkeypatch):
    "The pairs are those of the rows that are counted, not of all rows."
    from privglasso.publish import units

    n = 300_000
    plan = plan_units(n, 1, 1.0)
    assert plan.rows < n
    count, seen = units._count_spreads, []

    def checked(values, order, window, counts):
        seen.append((len(values), np.sort(order)))
        count(values, order, window, counts)

    monkeypatch.setattr(units, "_count_spreads", checked)
    values = np.random.default_rng(0).normal(size=(n, 1))
    assert find_units(values, plan, bit_source(0)).found[0]
    ((rows, order),) = seen
    assert rows == plan.rows and np.array_equal(order, np.arange(rows))


def test_digits_are_counted_as_they_are_defined():
    "The fast way to a bin, by a multiplication, never takes another one."
    rng = np.random.default_rng(0)
    exponents = np.array([-1074, -1030, -1022, -40, 0, 7, 900, 1022, 1023, 1025])
    p = len(exponents)
    bins = np.r_[rng.integers(-(2**44), 2**44, 150), -1, 0, 1, 2**62, -(2**62)]
    with np.errstate(over="ignore"):
        values = np.ldexp(bins[:, None].astype(float), exponents)
        values = np.r_[values, np.nextafter(values, np.inf), np.nextafter(values, -1e9)]
    values[0], values[1, :3], values[2, 3:] = np.nan, -5e-324, -1.7e308
    counts, origins = np.zeros((p, 1 << 12), dtype=np.int64), np.zeros(p, dtype=int)
    units._count_digits(values, exponents, origins, 0, 1, counts)
    slow = np.zeros_like(counts)
    for row in values:
        for j, x in enumerate(row):
            digits = units._digits_of(x, int(exponents[j]))
            if digits >= 0:
                slow[j, digits & 4095] += 1
    np.testing.assert_array_equal(counts, slow)
    assert (slow.sum(axis=1) > 300).sum() >= 7
