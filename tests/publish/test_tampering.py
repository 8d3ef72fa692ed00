"""Whatever somebody writes into a file: a typed error that names the file and the
place, or the same promise as before."""

import copy
import json
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from privglasso.publish import files
from privglasso.publish.copula import CopulaMechanism
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.publish.files import read_release
from privglasso.publish.graph_weights import GraphWeightsMechanism
from privglasso.publish.parquet import (
    CHECKSUM_KEY,
    METADATA_KEY,
    ReleaseError,
    _digest,
    _known_format,
    stored_release,
)
from privglasso.publish.ranks import KendallMechanism
from privglasso.publish.screened_weights import ScreenedGraphMechanism
from privglasso.publish.synthetic import SyntheticDataMechanism
from privglasso.publish.tree import ThresholdedGraphMechanism, TreeMechanism
from privglasso.publish.votes import VotedGraphMechanism, VotedWeightsMechanism

rng = np.random.default_rng(0)
TABLE = pd.DataFrame(rng.normal(size=(3000, 4)).cumsum(axis=1) + 3, columns=[*"abcd"])
SURE = dict(epsilon=1.0, delta=1e-6)


def joined(block):
    "An estimator that joins all."
    return np.ones((block.shape[1],) * 2, bool)


MECHANISMS = {
    "covariance": CovarianceMechanism((-20, 20), mu=1.0, clipping="box"),
    "shape": CovarianceMechanism(clipping="sphere", mu=2.0),
    "scores": CovarianceMechanism(mu=2.0, levels={"f": (1, 5)}),
    "gaps": CovarianceMechanism(mu=2.0, missing="center"),
    "synthetic": SyntheticDataMechanism(clipping="sphere", rows=9, mu=2.0),
    "synthetic scores": SyntheticDataMechanism(rows=9, mu=2.0),
    "kendall": KendallMechanism(mu=1.0),
    "tree": TreeMechanism(**SURE),
    "graph": ThresholdedGraphMechanism(threshold=0.2, **SURE),
    "copula": CopulaMechanism(mu=2.0),
    "weights": GraphWeightsMechanism(
        nx.cycle_graph([*"abcdef"]), levels={"f": (1, 5)}, mu=2.0
    ),
    "screened": ScreenedGraphMechanism(edges=6, levels={"f": (1, 5)}, mu=2.0),
    "votes": VotedGraphMechanism(joined, blocks=60, **SURE),
    "votes and weights": VotedWeightsMechanism(joined, blocks=60, mu=2.0, failure=1e-6),
}
DROP = object()
_LOST = np.linspace(1e-90, 2e-90, 3000)  # has a unit that is too small


def places(stated, path=()):
    "(path, value) of every field, set of fields and list; of a list, its last entry."
    yield path, stated
    inner = stated.items() if isinstance(stated, dict) else ()
    if isinstance(stated, list) and stated:
        inner = [(len(stated) - 1, stated[-1])]
    for key, value in inner:
        yield from places(value, (*path, key))


def strange(value):
    "What stands nowhere in a release, of this type and of others."
    yield from (DROP, "cheap\x1b[2J", {"cheap\x1b[2J": 1})
    if isinstance(value, list):
        yield from (value[:-1], [*value, *value[-1:]], [None] * len(value))
    elif isinstance(value, dict):
        yield value | {"cheap\x1b[2J": 1}
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from (float("nan"), 1e300, -(10**400), True)


def changed(metadata, path, new):
    "The metadata with another value at one place."
    if not path:
        return new
    metadata = copy.deepcopy(metadata)
    here = metadata
    for key in path[:-1]:
        here = here[key]
    if new is DROP:
        del here[path[-1]]
    else:
        here[path[-1]] = new
    return metadata


class Forger:
    "Writes the file of a release anew, with other metadata and a checksum that fits."

    def __init__(self, kind, folder):
        wide = kind in ("shape", "scores", "weights", "screened", "votes and weights")
        table = TABLE.assign(e=1.0) if wide else TABLE
        if kind == "scores":
            table = table.assign(f=np.arange(len(table)) % 5 + 1, g=_LOST)
        if kind == "gaps":
            table = table.assign(h=np.where(np.arange(len(table)) % 4, np.nan, 3.0))
        if kind in ("weights", "screened"):
            table = table.assign(f=np.arange(len(table)) % 5 + 1)
        self.path = folder / "r.parquet"
        MECHANISMS[kind].publish(table, random_state=1).to_parquet(self.path)
        self.stored = pq.read_table(self.path)
        self.metadata = json.loads(self.stored.schema.metadata[METADATA_KEY])
        self.table = self.stored.to_pandas(ignore_metadata=True)
        self.whole = stored_release(self.path)[1]  # with both triangles
        self.promise = read_release(self.path).guarantee

    def read(self, metadata):
        "What a stranger reads."
        raw = json.dumps(metadata).encode()
        seal = {METADATA_KEY: raw, CHECKSUM_KEY: _digest(raw, self.table).encode()}
        pq.write_table(self.stored.replace_schema_metadata(seal), self.path)
        return read_release(self.path)

    def read_unwritten(self, metadata, monkeypatch):
        "The same, without the file, and with every warning an error."
        raw = json.dumps(metadata)
        stored = lambda path: (_known_format(raw, path, True), self.whole)
        monkeypatch.setattr(files, "stored_release", stored)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return read_release(self.path)


@pytest.mark.parametrize("kind", MECHANISMS)
def test_nothing_strange_is_read(kind, tmp_path, monkeypatch):
    forger, believed, tried = Forger(kind, tmp_path), [], 0
    for path, value in places(forger.metadata):
        for new in strange(value):
            if new is DROP and (not path or isinstance(path[-1], int)):
                continue
            tried += 1
            try:
                forger.read_unwritten(changed(forger.metadata, path, new), monkeypatch)
            except ReleaseError as error:
                said = str(error)
                assert said.startswith("r.parquet") and "must be a a" not in said
                assert "cheap" not in said and "\x1b" not in said and len(said) < 250
            else:
                believed.append((path, new))
    word = [(("lattice", "center", 3), 1e300)]  # the publisher's, however far away
    assert tried > 90 and believed == (word if kind == "covariance" else [])


RANGES = {  # the place, and what must not stand there
    "units.rows": (0, 1, -3000, 3001, 10**12, 2.5, 3000.0),
    "units.failure": (0, -1e-4, 1.0, 1.5, "1e-4"),
    "units.n": (2999, 6000),
    "units.p": (4, 6),
    "units.sigma.near": (0.5, -30.0, 1e300, None),
    "lattice.center": ([1e300] * 4, [0.0] * 3, [True] * 4),
    "lattice.scale": ([1e300] * 4, [-1.0] * 4, [0.0] * 4, [1e-300] * 4, [1.0] * 5),
    "lattice.steps": (0, -64, 2**40, 2.0**10),
    "lattice.constant": (-1, 2**27),
    "total": ([2**63] * 4, [0.5] * 4, [0] * 3),
    "all_columns": (["a", "b\x1b[2J", "c", "d", "e"], [1, 2, 3, 4, 5], "abcde"),
    "set_aside": ({"e": "trust me"}, {"e": 3}, ["e"]),
    "mechanism": ("CovarianceMechanism\x1b[2J", "KendallMechanism"),
    "n": (0, -1, 2**60, 10**400),
    "secure": (1, "yes"),
}


SCORE_RANGES = {
    **{place: RANGES[place] for place in ("units.rows", "units.failure", "mechanism")},
    "units.p": (0, 8),
    "lattice.steps": (0, -64, 2**40, 2.0**10),
    "lattice.sigma": ([1e9], [-1.0, 1.0], [1e300] * 2),
    "margins.kinds": (["bins"] * 6, ["units"] * 5, "units"),
    "margins.center": ([1e300] * 6, [0.0] * 5, [True] * 6),
    "margins.scale": ([0.0] * 6, [-1.0] * 6, [1e300] * 6),
    "margins.counts": ([[1]] * 5, [[0.5] * 20] * 6, "many"),
    "margins.sigma": (0.5, -30.0, 1e300),
    "searched": (-1, 8, 1.5),
    "latent": (1, "no"),
    "set_aside": ({"g": "trust me"}, {"g": 3}, ["g"]),
}
NAMED = [("shape", place, values) for place, values in RANGES.items()]
NAMED += [("scores", place, values) for place, values in SCORE_RANGES.items()]


@pytest.mark.parametrize("kind, place, values", NAMED)
def test_the_place_is_named(kind, place, values, tmp_path):
    forger = Forger(kind, tmp_path)
    for value in values:
        with pytest.raises(ReleaseError, match=f"damaged: {place}[ .]"):
            forger.read(changed(forger.metadata, tuple(place.split(".")), value))


def test_what_is_out_of_proportion_is_contradicted(tmp_path):
    forger = Forger("shape", tmp_path)
    lattice = forger.metadata["lattice"]
    quieter = [0.9 * sigma for sigma in lattice["sigma"]]
    for path, value in {
        ("lattice", "steps"): 2 * lattice["steps"],
        ("lattice", "sigma"): quieter,
        ("units", "sigma", "near"): 2 * forger.metadata["units"]["sigma"]["near"],
        ("total",): [2**61] * 4,
        ("units",): None,
        ("all_columns",): forger.metadata["all_columns"][::-1],
        ("set_aside",): dict.fromkeys("ez", forger.metadata["set_aside"]["e"]),
    }.items():
        with pytest.raises(ReleaseError, match="contradicts itself"):
            forger.read(changed(forger.metadata, path, value))


def test_no_column_is_said_to_be_mostly_missing_that_may_not_be(tmp_path):
    forger = Forger("gaps", tmp_path)
    told, margins = forger.metadata, forger.metadata["margins"]
    assert margins["kinds"] == ["units"] * 4 + ["presence"] and told["searched"] == 1
    read = forger.read(told)
    assert read.mostly_missing == ["h"] and read.guarantee == forger.promise
    counts = margins["counts"]
    half = [*counts[:4], [each // 2 for each in counts[4]]]
    for path, value in [
        (("missing",), "refuse"),
        (("searched",), 0),
        (("searched",), told["units"]["p"] + 1),
        (("units",), None),
        (("margins", "kinds"), ["units"] * 3 + ["presence"] * 2),
        (("margins", "kinds"), ["presence"] * 5),
        (("margins", "center"), [*margins["center"][:4], 1.0]),
        (("margins", "scale"), [*margins["scale"][:4], 2.0]),
        (("margins", "counts"), half),
    ]:
        with pytest.raises(ReleaseError, match="contradicts itself|damaged"):
            forger.read(changed(told, path, value))


def with_entry(values, place, new):
    "A list with another entry at one place."
    return [*values[:place], new, *values[place + 1 :]]


def test_what_is_out_of_proportion_in_scores_is_contradicted(tmp_path):
    forger = Forger("scores", tmp_path)
    stated = forger.metadata
    margins, lattice = stated["margins"], stated["lattice"]
    counts, levels = margins["counts"], margins["kinds"].index("levels")
    for path, value in [
        (("lattice", "steps"), 2 * lattice["steps"]),
        (("lattice", "sigma"), [0.9 * sigma for sigma in lattice["sigma"]]),
        (("margins", "sigma"), 0.9 * margins["sigma"]),
        (("margins", "kinds"), with_entry(margins["kinds"], 0, "levels")),
        (("margins", "scale"), with_entry(margins["scale"], levels, 31.5)),
        (("margins", "scale"), with_entry(margins["scale"], levels, 40.0)),
        (("margins", "center"), with_entry(margins["center"], levels, 0.5)),
        (("margins", "counts"), [[10**6] * len(counts[0])] * len(counts)),
        (("margins", "counts"), [[*row, 0] for row in counts]),
        (("margins", "counts"), [[-(10**5)] * len(counts[0])] * len(counts)),
        (("units", "sigma", "near"), 0.9 * stated["units"]["sigma"]["near"]),
        (("units",), None),
        (("searched",), 0),
        (("searched",), stated["searched"] + 1),
        (("all_columns",), stated["all_columns"][::-1]),
        (("mu",), 0.99 * stated["mu"]),
    ]:
        with pytest.raises(ReleaseError, match="contradicts itself"):
            forger.read(changed(stated, path, value))


@pytest.mark.parametrize("kind", ["shape", "scores", "copula"])
def test_no_promise_rests_on_how_sure_the_units_are_said_to_be(kind, tmp_path):
    forger = Forger(kind, tmp_path)
    units = forger.metadata["units"] | {"rows": 2048, "failure": 0.01}
    again = forger.read(changed(forger.metadata, ("units",), units))
    assert again.guarantee == forger.promise
