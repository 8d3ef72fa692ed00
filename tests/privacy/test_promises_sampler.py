"""What is undecided is decided exactly, and refused by nothing else."""

from fractions import Fraction

import numpy as np
import pytest

from privglasso.privacy import sampler as exact


@pytest.mark.parametrize("way", ["interpreted", "compiled"])
def test_a_tie_is_not_refused_before_it_is_decided(way):
    """The block of a tie is not known yet, so its coin and its sign say nothing: every
    such row is undecided, and none of these is among the refused."""
    sampler = exact.BlockSampler(1024.0)
    b, table = sampler.block_bits, sampler.table
    words = [
        (2 * int(tie) + sign, 2 * (v << b | place))
        for tie in table.thresholds[[0, 1, 50, 300]]
        for sign in (0, 1)
        for place in (0, 2**b - 1)
        for v in (0, 2 ** (31 - b) - 1)
    ]
    words = np.array(words, dtype=np.uint32)
    values, unknown, rejected = (np.empty(len(words) + 1, np.int64) for _ in range(3))
    public = b, sampler._scale, table.thresholds, table.guide, table.shift
    fill = getattr(exact._fill_blocks, way)
    counts = fill(words, *public, values, unknown, rejected)
    assert tuple(counts) == (len(words), 0)
    assert unknown[: len(words)].tolist() == list(range(len(words)))


@pytest.mark.parametrize("n", [2, 3, 5, 6, 7, 100])
def test_every_place_is_drawn_by_equally_many_words(n):
    """Of the 2^32 words, floor(2^32/n) lead to each place and the others are refused:
    at the first and the last word of each place, in whole numbers."""
    refused = 2**32 % n
    for place in range(n):
        first = -(-place * 2**32 // n)
        first += -(-max(refused - (first * n - place * 2**32), 0) // n)
        last = first + 2**32 // n - 1
        for word, expected in ((first, place), (last, place)):
            places = np.arange(n, dtype=np.int32)
            done = exact._swap.interpreted(places, 0, np.array([word], np.uint32))
            assert (done, places[0]) == (1, expected)
        if refused and Fraction(first - 1) * n >= place * 2**32:
            word = np.array([first - 1], np.uint32)
            assert exact._swap.interpreted(np.arange(n, dtype=np.int32), 0, word) == 0
