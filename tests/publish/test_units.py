"Private units: what a notebook should not carry."

import itertools
import json
import math
import os
import re
import tracemalloc

import numpy as np
import pytest
from scipy.special import log_ndtr

from privglasso.base.validation import InputError
from privglasso.privacy.sampler import bit_source
from privglasso.publish import units
from privglasso.publish.units import (
    SPREAD_WINDOW,
    UnitsPlan,
    find_units,
    plan_units,
    spread_counts,
)


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


def test_a_long_table_is_counted_within_its_sample(monkeypatch):
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


def test_the_rows_of_a_long_table_are_a_uniform_sample_without_replacement():
    "Each choice of words is one ordered sample, whatever the order of the table."
    rows = np.arange(5.0)[:, None]
    samples = set()
    for order in itertools.permutations(range(5)):
        found = []
        for choice in itertools.product(range(5), range(4)):
            words = [-(-choice[0] * 2**32 // 5) + 1, choice[1] * 2**30 + 1]
            sample = units._counted_rows(rows[list(order)], 2, Words(words))
            found.append(tuple(sample.ravel().tolist()))
        samples.add(tuple(sorted(found)))
    assert samples == {tuple(itertools.permutations(range(5), 2))}


class Words:
    "Bits that are given beforehand."

    def __init__(self, words):
        self.left = list(words)

    def words(self, n):
        return np.array([self.left.pop(0) for _ in range(n)], dtype=np.uint32)


def test_what_is_found_does_not_follow_the_places_of_the_rows():
    "A sorted table is sampled as fairly as any other."
    n = 1 << 17
    plan = plan_units(n, 1, 1.0)
    assert plan.rows < n
    values = np.r_[np.full(n // 2, 1e6), np.full(n // 2, -1e6)][:, None]
    above = [
        (units._counted_rows(values, plan.rows, bit_source(seed)) > 0).mean()
        for seed in range(5)
    ]
    # of 32768 drawn, seven deviations of a fair share; five times less than 1e-11
    assert np.abs(np.array(above) - 0.5).max() < 3.5 / np.sqrt(plan.rows)
    assert len(set(above)) > 1


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


# Which scale of a column decides: bounds of `_error` while the strength s and s²/n run
# through a cell


def enclosed_strengths(s, n):
    "Ends of strengths over s², and of counts."
    least, most = (np.array([[1 / 16], [0.74**2 / 6]]) for _ in range(2))
    small = np.array([[1 / 24], [0.74**2 / 36]])  # of the 1/6 that a variance exceeds
    least = least / (1 + small * (s[1] / n[0]) ** 2) * [[(1 - 1 / n[0]) ** 2], [1]]
    most = most / (1 + small * (s[0] / n[1]) ** 2)
    counts = np.array([[(n[0] - 1) / 2, n[0]], [n[1] / 2, n[1]]])
    return least[:, 0] * (1 - 1e-12), most[:, 0] * (1 + 1e-12), *counts


def hazard(y):
    "Density over tail, as `_error` has it."
    near = np.clip(y, -30, 30)
    density = np.exp(-(near**2) / 2 - log_ndtr(-near)) / np.sqrt(2 * np.pi)
    return np.where(y > 30, y + 1 / np.maximum(y, 30), density)


def error_end(rivals, s, ends, upper):
    "The upper or the lower end of the errors in a cell."
    mean, energy, variance, step, largest = rivals
    low, high, few, many = (end[: len(mean)] for end in ends)
    noise = [np.sqrt(np.maximum(end @ energy, 1e-300)) for end in (low, high)]
    least = low @ np.maximum(mean, 0) + high @ np.minimum(mean, 0) - (high / few) @ step
    most = high @ np.maximum(mean, 0) + low @ np.minimum(mean, 0) - (low / many) @ step
    near = np.where(least > 0, s[0] * least / noise[1], s[1] * least / noise[0])
    far = np.where(most > 0, s[1] * most / noise[0], s[0] * most / noise[1])
    y, other, part, counts, size, k = (
        (near, far, high, few, s[1], 0) if upper else (far, near, low, many, s[0], 1)
    )
    rate = hazard(other) * size / noise[k]
    each = np.array([2, 4])[: len(mean)] * part / counts
    room = 1 - rate * (each @ largest) / 3
    extra = (rate * ((part / np.sqrt(counts)) @ np.sqrt(variance))) ** 2 / 2
    extra = np.where(room > 0, extra / np.maximum(room, 1e-9), np.inf)
    return np.exp(np.minimum(log_ndtr(-y) + extra, 0))


def bound_end(monkeypatch, fraction, cell, upper):
    "The upper or the lower end of the bound for one column of a scale."
    s, (low, high) = cell
    n = s[0] ** 2 / high, s[1] ** 2 / low if low else np.inf
    ends = enclosed_strengths(s, n)
    with monkeypatch.context() as patch:
        patch.setattr(units, "_error", lambda r, *_: error_end(r, s, ends, upper))
        patch.setattr(units, "_hopeless", lambda strength: False)
        return units._unit_error(np.ones(2), np.ones(2), [fraction])


def decided(monkeypatch, cell):
    "Whether in all of a cell the last scale has the largest bound."
    *others, last = units._FRACTIONS
    least = bound_end(monkeypatch, last, cell, upper=False)
    others.sort(key=lambda x: abs(x - 11 / 16))  # the closest first
    return all(bound_end(monkeypatch, x, cell, upper=True) < least for x in others)


def halves(cell):
    "Both halves of a cell, along its longer side."
    (a, b), (c, d) = cell
    if 2.4 * (b / a - 1) > d - c:
        return ((a, (a + b) / 2), (c, d)), (((a + b) / 2, b), (c, d))
    return ((a, b), (c, (c + d) / 2)), ((a, b), ((c + d) / 2, d))


def cells_from(s):
    "Eight cells for 0 ≤ s²/n ≤ 1.2, from s on, and where the next begin."
    end = min(s + (0.125 if s < 24 else 0.25 if s < 34 else 0.5), 60.0)
    return [((s, end), (0.15 * k, 0.15 * (k + 1))) for k in range(8)], end


def test_one_scale_decides(monkeypatch):
    """In random cells of 20 ≤ s ≤ 60, s² ≤ 1.2 n: halving a cell that is too large for
    a verdict ends."""
    rng = np.random.default_rng()
    for _ in range(12):
        cells, _ = cells_from(float(np.exp(rng.uniform(np.log(20), np.log(60)))))
        cell = cells[rng.integers(8)]
        for _ in range(22):
            if decided(monkeypatch, cell):
                break
            cell = halves(cell)[rng.integers(2)]
        else:
            raise AssertionError(f"undecided in {cell}")
    outside = (16.0, 16.01), (0.05, 0.051)  # where another scale is worse
    assert not decided(monkeypatch, outside)


@pytest.mark.skipif("ALL_CELLS" not in os.environ, reason="minutes: set ALL_CELLS=1")
def test_one_scale_decides_everywhere(monkeypatch):
    start, count = 20.0, 0
    while start < 60:
        cells, start = cells_from(start)
        while cells:
            cell = cells.pop()
            if decided(monkeypatch, cell):
                count += 1
                continue
            assert cell[0][1] / cell[0][0] > 1 + 1e-5, cell
            cells += halves(cell)
    assert count == 3614


def test_the_ends_enclose_the_bound(monkeypatch):
    for s, n in ((24.0, 3001), (20.5, 400), (50.0, 10**6)):
        levels = units._levels(units._sigmas(n, 7, np.array([s, 0.74 * s, 9, 9, 9])))
        counts = np.array([n // 2, n], float)
        strength = counts**2 / np.array([level.sigma for level in levels[:2]]) ** 2
        for fraction in units._FRACTIONS[-3::2]:
            bound = units._unit_error(strength, counts, [fraction])
            for width in (0.0, 0.002):
                cell = (s, s * (1 + width)), (s**2 / n, s**2 / n * (1 + width))
                low, high = (
                    bound_end(monkeypatch, fraction, cell, end) for end in (False, True)
                )
                assert low <= bound <= high < 1.5 * low


def test_a_search_by_the_deciding_scale_ends_where_all_would(monkeypatch):
    for n, p, failure in ((3000, 20, 1e-4), (700, 1, 1e-6), (10**6, 300, 1e-2)):
        quick = units._least_strengths.__wrapped__(n, p, failure)
        monkeypatch.setattr(units, "_deciding", lambda n, s: units._FRACTIONS)
        assert (units._least_strengths.__wrapped__(n, p, failure) == quick).all()
        monkeypatch.undo()


def test_too_few_rows_are_found_out_once(monkeypatch):
    units._least_strengths.cache_clear()
    for _ in range(3):
        with pytest.raises(InputError, match="too few rows"):
            units.plan_units(2, 2, 1.0)
    # the failure asked for, and each that a message might name
    assert units._least_strengths.cache_info().misses == 1 + len(units._RISKS)


def test_rows_are_paired_in_a_secret_order():
    "Of a file whose rows come in equal pairs each has a partner of its own."
    values = np.repeat(np.random.default_rng(0).normal(size=(4000, 1)), 2, axis=0)
    plan = plan_units(8000, 1, 30.0)
    noise = plan.levels[0].sigma * math.sqrt(plan.levels[0].bins)
    for seed in range(3):
        counted = spread_counts(values, plan, bit_source(seed)).sum() / SPREAD_WINDOW
        assert abs(counted - 4000) < 6 * noise / SPREAD_WINDOW + 8 < 1000


@pytest.mark.parametrize(
    "n, p, risk", [(442, 10, 0.01), (569, 30, 0.001), (178, 13, None)]
)
def test_too_few_rows_are_told_what_would_do(n, p, risk):
    with pytest.raises(InputError, match="KendallMechanism needs no units") as caught:
        plan_units(n, p, 2.0)
    named = re.search(r"unit_failure=([\d.]+);", caught.value.remedy)
    assert (named and float(named[1])) == risk
    if risk is None:
        return
    assert plan_units(n, p, 2.0, risk).failure == risk
    with pytest.raises(InputError, match="too few rows"):
        plan_units(n, p, 2.0, risk / 10)


def test_units_of_many_columns_take_little_memory():
    """Their largest histograms and the noise on them, 79 MB each of 300 columns, and no
    more of this size for the scores of scales."""
    values = np.random.default_rng(0).normal(3, 2, (4000, 300))
    plan, bits = plan_units(4000, 300, 1.0), bit_source(0)
    find_units(values, plan, bits)
    tracemalloc.start()
    found = find_units(values, plan, bits)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    counts = 8 * 300 * max(level.bins for level in plan.levels)
    assert found.found.all() and most < 2.5 * counts
