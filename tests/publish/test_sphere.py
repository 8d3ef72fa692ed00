"""Rows on a sphere or in a ball: what no table may do."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privglasso.base.validation import InputError
from privglasso.privacy.sampler import bit_source
from privglasso.publish.sphere import Ball, Sphere, integer_sums, noisy_sums
from privglasso.publish.sphere import row_lattice, rows_on_lattice

CELLS = st.floats(allow_nan=True, allow_infinity=False)


@settings(max_examples=150, deadline=None)
@given(rows=st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=4))
@pytest.mark.parametrize("clipping", [Sphere([1, 1e-9, 1e9], 3.0), Ball(1.5)])
def test_no_row_contributes_more_than_the_radius(clipping, rows):
    lattice = row_lattice(10, 3, 1.0, clipping)
    second, total = integer_sums(np.array(rows), lattice)
    assert np.trace(second) <= len(rows) * lattice.steps**2
    assert np.abs(total).max() <= len(rows) * lattice.steps * lattice.constant


@settings(max_examples=150, deadline=None)
@given(
    pair=st.tuples(*[st.tuples(CELLS, CELLS, CELLS)] * 2), a=st.sampled_from([0.0, 1.0])
)
def test_a_replaced_row_moves_no_more_than_is_hidden(pair, a):
    lattice = row_lattice(10, 3, 1.0, Sphere(), mean=a)
    (M, t), (N, u) = (integer_sums(np.array([row]), lattice) for row in pair)
    D, d = (M - N).astype(object), (t - u).astype(object)
    moved = (np.triu(D, 1) ** 2).sum() + (d**2).sum()
    assert 2 * moved + sum(np.diag(D) ** 2) <= 2 * lattice.sensitivity**2


def test_odd_rows_leave_nothing_of_the_block_before_them(monkeypatch):
    rows = np.random.default_rng(0).normal(size=(40, 3))
    rows[20:] = [[np.nan, 2, 0], [0, 0, 0], [1e300, 1, 1], [np.nan] * 3] * 5
    monkeypatch.setattr("privglasso.publish.sphere._BLOCK_CELLS", 60)
    lattice = row_lattice(40, 3, 1.0, Sphere(2.0))
    alone = [integer_sums(row[None], lattice) for row in rows]
    together = integer_sums(rows, lattice)
    for k in range(2):
        np.testing.assert_array_equal(together[k], sum(part[k] for part in alone))


def test_sums_do_not_depend_on_the_order_of_rows_or_on_blocks(monkeypatch):
    X = np.random.default_rng(0).standard_cauchy((5000, 4))
    lattice = row_lattice(5000, 4, 1.0, Sphere())
    once = integer_sums(X, lattice)
    monkeypatch.setattr("privglasso.publish.sphere._BLOCK_CELLS", 40)
    again = integer_sums(X[::-1], lattice)
    assert all(np.array_equal(a, b) for a, b in zip(once, again, strict=True))


def test_noise_has_the_stated_variances_and_its_own_draws():
    lattice = row_lattice(4, 2, 0.5, Sphere(), mean=1.0)
    X = np.zeros((4, 2))
    found = [noisy_sums(X, lattice, bit_source(seed)) for seed in range(3000)]
    second = np.array([second for second, _ in found], dtype=float)
    total = np.array([total for _, total in found], dtype=float)
    for values, sigma in (
        (second[:, 0, 1], lattice.sigma[0]),
        (second[:, 1, 1], lattice.sigma[1]),
        (total[:, 0], lattice.sigma[0]),
    ):
        # six standard errors of a variance of 3000 draws
        assert abs(values.var() / sigma**2 - 1) < 6 * math.sqrt(2 / 3000)
    entries = np.c_[second[:, 0, 0], second[:, 0, 1], second[:, 1, 1], total]
    correlated = np.abs(np.corrcoef(entries.T) - np.eye(5)).max()
    assert correlated < 6 / math.sqrt(3000)


@pytest.mark.parametrize(
    "make, named",
    [
        (lambda: Sphere(scale=0.0), "scale"),
        (lambda: Sphere(scale=[1.0, -2.0]), "scale"),
        (lambda: Sphere(scale=1e80), "scale, center"),
        (lambda: Sphere(center=math.nan), "center"),
        (lambda: Sphere(center="a"), "center"),
        (lambda: Ball(0.0), "radius"),
        (lambda: Sphere.within((1, 0)), "bounds"),
        (lambda: row_lattice(1, 3, 1.0, Sphere()), "n"),
        (lambda: row_lattice(10, 0, 1.0, Sphere()), "p"),
        (lambda: row_lattice(10, 3, 1.0, Sphere(scale=[1, 2])), "scale"),
        (lambda: row_lattice(10, 3, 1e-9, Sphere()), "mu"),
        (lambda: row_lattice(10, 3, 1e14, Sphere()), "mu"),
        (lambda: row_lattice(10**14, 3, 1.0, Sphere()), "n"),
        (lambda: row_lattice(10, 3, 1.0, Sphere(), mean=2.0), "mean"),
    ],
)
def test_bad_clipping_and_shapes(make, named):
    with pytest.raises(InputError, match=f"^{named}="):
        make()


@pytest.mark.parametrize("part", [0, 1])
def test_less_noise_on_or_off_the_diagonal_is_a_larger_promise(part):
    lattice = row_lattice(1000, 5, 0.5, Sphere())
    sigma = lattice.sigma * np.where(np.arange(2) == part, 0.9, 1.0)
    promised = replace(lattice, sigma=sigma).guarantee("record").mu
    assert promised == pytest.approx(0.5 / 0.9, rel=1e-6)


@pytest.mark.parametrize("mu", [1e-9, 1e14])
def test_a_refused_target_names_one_that_works(mu):
    with pytest.raises(InputError, match="use mu [<>]= ") as caught:
        row_lattice(100, 5, mu, Sphere())
    works = float(str(caught.value).split("= ")[-1])
    stated = row_lattice(100, 5, works, Sphere()).guarantee("record").mu
    assert works * (1 - 1e-9) < stated <= works


@pytest.mark.parametrize("columns", [2, 4])
def test_rows_of_another_width_are_refused(columns):
    lattice = row_lattice(10, 3, 1.0, Sphere())
    with pytest.raises(InputError, match="^values=.*give the 3 columns"):
        integer_sums(np.ones((10, columns)), lattice)


@pytest.mark.parametrize("mean", [-0.1, 1.8, math.inf])
def test_a_constant_that_no_row_could_have_is_refused(mean):
    with pytest.raises(InputError, match="mean"):
        row_lattice(10, 3, 1.0, Sphere(), mean=mean)


@pytest.mark.parametrize("shape", [Sphere(), Ball(2.0)])
def test_rows_may_be_put_on_their_lattice_where_they_stand(shape):
    rows = np.random.default_rng(3).normal(size=(40, 3))
    rows[::7] *= 1e180  # squares overflow, vanish, or a cell is missing
    rows[1::7] *= 1e-180
    rows[2::7, 1], rows[3] = np.nan, 0.0
    lattice = row_lattice(len(rows), 3, 0.5, shape)
    beside = rows_on_lattice(rows, lattice, np.full((50, 3), 9.0))
    assert np.array_equal(rows_on_lattice(rows, lattice, rows), beside)
