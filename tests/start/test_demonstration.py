"""The demonstration's helpers where its tables do not lead: few edges, many, none."""

import numpy as np
import pytest

from privglasso.data_sets.synthetic import chain_precision, example_table
from privglasso.publish.table import GaussianMechanism
from privglasso.start.demonstration import corrected_of, promise, strongest


@pytest.mark.parametrize("count", [0, 1, 3, 5, 100])
def test_the_strongest_are_as_many_as_asked_or_as_there_are(count):
    graph = strongest(chain_precision(6), count)
    assert (graph == graph.T).all() and not graph.diagonal().any()
    assert graph.sum() // 2 == min(count, 5) and not graph[np.triu_indices(6, 2)].any()


def test_the_strongest_come_first():
    precision = np.eye(4)
    precision[0, 3] = precision[3, 0] = -0.4
    precision[1, 2] = precision[2, 1] = 0.3
    assert np.argwhere(np.triu(strongest(precision, 1))).tolist() == [[0, 3]]


def test_a_table_is_taken_at_its_word_and_a_release_corrected():
    data = example_table(500, 0)
    release = GaussianMechanism(data.bounds, mu=2000.0).publish(
        data.table, random_state=0
    )
    np.testing.assert_array_equal(corrected_of(release), release.corrected_covariance())
    own = corrected_of(release.table)
    shrunk = (
        1 - 1 / 500
    ) * release.noise_variance  # the mean takes a share of the noise with it
    np.testing.assert_allclose(
        own - np.diag(shrunk), corrected_of(release), rtol=1e-9, atol=1e-9
    )


def test_a_promise_in_words():
    data = example_table(500, 0)
    words, epsilon = promise(
        GaussianMechanism(data.bounds, epsilon=1, delta=500**-2.0).guarantee(500, 20),
        500,
    )
    assert words.startswith("a changed record is noticed") and epsilon == "1"
