"""Data sets: exactly the registered bytes or a typed error that says what to do."""

import dataclasses
import hashlib
import json
import sys
import threading
import types
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pandas as pd
import pytest
import requests

from privglasso.data_sets import registry as datasets
from privglasso.data_sets.chickenpox import load_chickenpox
from privglasso.data_sets.congress import load_congress
from privglasso.data_sets.fmri import load_fmri, load_msdl
from privglasso.data_sets.grids import GRID11_LINES, GRID115_LINES, load_grid11
from privglasso.data_sets.grids import load_grid115, simulate_grid11, simulate_grid115
from privglasso.data_sets.grids import write_grid11, write_grid115
from privglasso.data_sets.ionosphere import ionosphere_labels, load_ionosphere
from privglasso.data_sets.movielens import load_movielens
from privglasso.data_sets.overview import data_overview
from privglasso.data_sets.registry import DataError, data_cache
from privglasso.data_sets.sachs import SACHS_17, load_sachs, log10_scale
from privglasso.data_sets.soil import load_soil
from privglasso.papers.guo import paper_epsilon, paper_table
from privglasso.base.settings import resource
from privglasso.data_sets.registry import Dataset
from privglasso.data_sets.synthetic import example_table
from privglasso.base.validation import InputError

CONTENT = b"a,b\n1,2\n"
NAMES = [
    "praf",
    "pmek",
    "plcg",
    "PIP2",
    "PIP3",
    "p44/42",
    "pakts473",
    "PKA",
    "PKC",
    "P38",
    "pjnk",
]


def entry(url, content=CONTENT):
    return {
        "file": "folder/toy.csv",
        "sha256": hashlib.sha256(content).hexdigest(),
        "url": url,
        "licence": "CC0",
    }


@pytest.fixture
def cache(tmp_path, monkeypatch):
    "An empty cache folder that downloads go to."
    monkeypatch.delenv("PRIVGLASSO_DATA", raising=False)
    monkeypatch.setattr(datasets.pooch, "os_cache", lambda name: tmp_path / "cache")
    return tmp_path / "cache"


@pytest.fixture
def server(tmp_path):
    "A web server on this machine with one file; its address."
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "toy.csv").write_bytes(CONTENT)
    handler = partial(SimpleHTTPRequestHandler, directory=tmp_path / "web")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{web.server_port}"
        web.shutdown()


@pytest.fixture
def register(monkeypatch):
    return lambda **entries: monkeypatch.setattr(datasets, "_registry", lambda: entries)


def files_in(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def need(*names):
    "Skip the test unless the registered files are in the cache: no test downloads anything."
    missing = [datasets._registered(name)["file"] for name in names]
    missing = [file for file in missing if not (data_cache() / file).exists()]
    if missing:
        pytest.skip(
            f"not downloaded yet: {missing}; the loaders of privglasso.datasets do"
        )


@pytest.fixture
def local(tmp_path, register, monkeypatch):
    "A function that puts small files of our own in the place of registered ones, with their own checksums."
    registry = json.loads(resource("data/registry.json").read_text(encoding="utf-8"))
    monkeypatch.setenv("PRIVGLASSO_DATA", str(tmp_path))

    def put(**contents):
        for name, text in contents.items():
            path = tmp_path / registry[name]["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            registry[name] |= {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        register(**registry)

    return put


# ---------------------------------------------------------------------- fetching


def test_download_lands_in_the_cache_and_is_reused(
    cache, server, register, capsys, monkeypatch
):
    register(toy=entry(f"{server}/toy.csv"))
    path = datasets.fetch_file("toy")
    assert path == cache / "folder" / "toy.csv" and path.read_bytes() == CONTENT
    assert "CC0" in capsys.readouterr().out
    monkeypatch.setattr(
        datasets.pooch, "retrieve", None
    )  # a second download would fail
    assert datasets.fetch_file("toy") == path


@pytest.mark.parametrize(
    "page, content, complaint",
    [
        ("toy.csv", b"something else", "sha256|SHA256|hash"),
        ("absent.csv", CONTENT, "404"),
    ],
)
def test_failed_download_says_why_and_leaves_nothing(
    cache, server, register, page, content, complaint
):
    register(toy=entry(f"{server}/{page}", content))
    with pytest.raises(
        DataError, match=f"(?s){complaint}.*fetch {server}/{page} and put it at"
    ):
        datasets.fetch_file("toy")
    assert files_in(cache) == []


@pytest.mark.parametrize(
    "failure",
    [
        requests.ConnectionError("no route"),
        requests.Timeout("slow"),
        PermissionError("read-only"),
    ],
)
def test_no_network_or_no_disk(cache, register, monkeypatch, failure):
    def refuse(*args, **kwargs):
        raise failure

    register(toy=entry("https://example.org/toy.csv"))
    monkeypatch.setattr(datasets.pooch, "retrieve", refuse)
    with pytest.raises(
        DataError, match=r"fetch https://example.org/toy.csv and put it at .*toy.csv"
    ):
        datasets.fetch_file("toy")


ORIGIN = 'n,long name,score\n0,"Ä, b",0.10957026481628418\n1,c,\n'
SELECTED = 'name,les\n"Ä, b",0.1095702648162841\nc,\n'


def selection(server, **changes):
    return (
        entry(None, SELECTED.encode())
        | {
            "origin": f"{server}/origin.csv",
            "how": "columns name, les",
            "columns": {"long name": "name", "score": "les"},
        }
        | changes
    )


def test_columns_are_selected_from_an_origin(cache, tmp_path, server, register):
    (tmp_path / "web" / "origin.csv").write_text(ORIGIN, encoding="utf-8")
    register(toy=selection(server))
    assert datasets.fetch_file("toy").read_text(encoding="utf-8") == SELECTED


@pytest.mark.parametrize(
    "changes, complaint",
    [
        ({"sha256": "0" * 64}, "do not have the registered sha256"),
        ({"columns": {"long name": "name", "votes": "les"}}, r"no columns \['votes'\]"),
    ],
)
def test_an_origin_that_changed_leaves_nothing(
    cache, tmp_path, server, register, changes, complaint
):
    (tmp_path / "web" / "origin.csv").write_text(ORIGIN, encoding="utf-8")
    register(toy=selection(server, **changes))
    with pytest.raises(
        DataError, match=f"(?s){complaint}.*make it from {server}/origin.csv"
    ):
        datasets.fetch_file("toy")
    assert files_in(cache) == []


def test_local_folder_is_read_checked_and_never_filled(tmp_path, register, monkeypatch):
    monkeypatch.setenv("PRIVGLASSO_DATA", str(tmp_path))
    monkeypatch.setattr(datasets.pooch, "retrieve", None)
    register(toy=entry("https://example.org/toy.csv"))
    with pytest.raises(DataError, match="PRIVGLASSO_DATA is set, but there is no"):
        datasets.fetch_file("toy")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "toy.csv").write_bytes(CONTENT)
    assert datasets.fetch_file("toy") == data_cache() / "folder" / "toy.csv"
    (tmp_path / "folder" / "toy.csv").write_bytes(CONTENT + b"3,4\n")
    with pytest.raises(DataError, match="not the registered file"):
        datasets.fetch_file("toy")
    assert (tmp_path / "folder" / "toy.csv").read_bytes().endswith(b"3,4\n")


def test_a_folder_in_the_files_place(tmp_path, register, monkeypatch):
    monkeypatch.setenv("PRIVGLASSO_DATA", str(tmp_path))
    register(toy=entry("https://example.org/toy.csv"))
    (tmp_path / "folder" / "toy.csv").mkdir(parents=True)
    with pytest.raises(DataError, match="cannot be read"):
        datasets.fetch_file("toy")


@pytest.mark.parametrize(
    "name, complaint",
    [
        ("sacks", "choose one of .*sachs"),
        ("movielens_1m", "may not be redistributed.*grouplens"),
        ("soil_ge100", "make it from .*biom"),
    ],
)
def test_what_cannot_be_downloaded(cache, name, complaint):
    with pytest.raises(DataError, match=complaint):
        datasets.fetch_file(name)


def test_registry_is_complete():
    registry = json.loads(resource("data/registry.json").read_text(encoding="utf-8"))
    for name, facts in registry.items():
        assert {"file", "sha256", "url", "licence", "n", "p", "truth", "notes"} <= set(
            facts
        ), name
        assert facts["url"] is None or facts["url"].startswith("https://"), name
        assert facts["url"] or facts.get("how"), name
        assert facts["sha256"] is None or len(facts["sha256"]) == 64, name


# ---------------------------------------------------------------------- cell signalling


def test_consensus_list():
    graph = datasets._adjacency_of(SACHS_17, NAMES)
    assert graph.sum() == 2 * 17 and np.array_equal(graph, graph.T)
    with pytest.raises(DataError, match="'praf' - 'nobody'"):
        datasets._adjacency_of([("praf", "nobody")], NAMES)
    with pytest.raises(DataError, match="'praf' - 'praf'"):
        datasets._adjacency_of([("praf", "praf")], NAMES)


@pytest.mark.parametrize("truth", ["19", 17, None, ""])
def test_unknown_truth_is_refused_before_anything_is_fetched(truth, monkeypatch):
    monkeypatch.setattr(datasets, "fetch_file", None)
    with pytest.raises(InputError, match="truth="):
        load_sachs(truth)


def test_sachs_when_it_is_there():
    need("sachs", "sachs_truth_18")
    data, consensus = load_sachs("18"), load_sachs("17")
    assert list(data.table.columns) == NAMES and data.table.shape == (7466, 11)
    assert data.truth.sum() == 2 * 18 and consensus.truth.sum() == 2 * 17
    assert (data.truth & consensus.truth).sum() == 2 * 15
    assert (
        data.table.min(axis=None) >= data.bounds[0].max()
        and data.table.max(axis=None) <= data.bounds[1].min()
    )


def test_logarithms_move_the_bounds_along():
    columns = np.array([1.0, 10.0])
    data = Dataset(
        name="t",
        table=pd.DataFrame([[1.0, 100.0], [10.0, 1000.0]]),
        truth=None,
        kind="integer",
        bounds=(columns, 1000 * columns),
        bounds_reason="scale",
        description="",
        source=(),
        licence="",
        citation="",
    )
    logs = log10_scale(data)
    assert (
        logs.table.to_numpy().tolist() == [[0, 2], [1, 3]] and logs.kind == "continuous"
    )
    assert np.array_equal(logs.bounds, [[0, 1], [3, 4]])
    with pytest.raises(InputError, match="greater than 0"):
        log10_scale(dataclasses.replace(data, bounds=None))
    with pytest.raises(InputError, match="every value"):
        log10_scale(dataclasses.replace(data, table=-data.table))
    with pytest.raises(InputError, match="greater than 0"):
        log10_scale(example_table(3, random_state=0))


# ---------------------------------------------------------------------- counts

WEEKS = "Date,B,A,C\n03/01/2005,1,2,3\n10/01/2005,4,5,6\n"
BORDERS = "name_1,name_2,id_1,id_2\nA,A,0,0\nA,B,0,1\nB,A,1,0\nC,B,2,1\nB,C,1,2\n"


def test_borders_are_read_by_name(local):
    local(chickenpox=WEEKS, chickenpox_edges=BORDERS)
    data = load_chickenpox()
    assert (
        data.table.columns.tolist() == ["B", "A", "C"]
        and data.kind == "integer"
        and data.bounds is None
    )
    assert data.truth.tolist() == [
        [False, True, True],
        [True, False, False],
        [True, False, False],
    ]
    assert data.table.index[1] == pd.Timestamp("2005-01-10")


@pytest.mark.parametrize(
    "borders, complaint",
    [
        (
            BORDERS.replace("C,B,2,1\nB,C,1,2\n", ""),
            r"counties \['C'\] have no neighbour",
        ),
        (
            BORDERS.replace("C,B,2,1\nB,C,1,2\n", "C,C,2,2\n"),
            r"counties \['C'\] have no neighbour",
        ),
        (BORDERS.replace("C,B", "Z,B"), "'Z' - 'B' does not join"),
    ],
)
def test_counties_without_neighbours_and_unknown_ones(local, borders, complaint):
    local(chickenpox=WEEKS, chickenpox_edges=borders)
    with pytest.raises(DataError, match=complaint):
        load_chickenpox()


def test_chickenpox_when_it_is_there():
    need("chickenpox", "chickenpox_edges")
    data = load_chickenpox()
    assert data.table.shape == (522, 20) and data.truth.sum() == 2 * 41
    names = list(data.table.columns)
    assert [names[j] for j in np.flatnonzero(data.truth[names.index("BUDAPEST")])] == [
        "PEST"
    ]
    assert not data.truth[
        names.index("ZALA"), names.index("SZABOLCS")
    ]  # the far west and the far east


def test_soil(local):
    local(soil=",7,8\nx,1,3.0\ny,2,1\n")
    data = load_soil()
    assert (
        data.table.to_numpy().tolist() == [[1, 3], [2, 1]]
        and (data.table.dtypes == np.int64).all()
    )
    assert data.truth is None and data.bounds is None


def test_soil_when_it_is_there():
    need("soil")
    table = load_soil().table
    assert table.shape == (89, 116) and table.min(axis=None) == 1
    assert table.loc["103.BB1"].sum() == 117  # one count, 116 pseudocounts
    assert (table - 1).sum().min() > 100


# ---------------------------------------------------------------------- Congress


def senate(missing=(), extra=""):
    "Scores of three senators in the ten Congresses and one before, but for the (senator, Congress) pairs `missing`."
    rows = [
        f"{congress},{icpsr},{last},X,{state},{les}"
        for congress in range(92, 103)
        for icpsr, last, state, les in (
            (1, "One", "AA", 0.5),
            (2, "Two", "BB", 1),
            (3, "Three", "CC", 1.5),
        )
        if (icpsr, congress) not in missing
    ]
    return "\n".join(["congress,icpsr,last,first,state,les", *rows]) + f"\n{extra}"


def test_a_member_missing_from_one_congress_is_left_out_and_counted(local):
    local(congress_senate=senate(missing=[(2, 97)]))
    data = load_congress("senate")
    assert data.table.shape == (10, 2) and data.table.index.tolist() == list(
        range(93, 103)
    )
    assert data.table.columns.tolist() == ["One, X (AA)", "Three, X (CC)"]
    assert "the 2 members of 3" in data.description
    assert np.array_equal(data.bounds, [[0, 0], [3, 3]])


def test_a_member_who_changes_name_or_has_no_number(local):
    local(
        congress_senate=senate().replace("98,2,Two", "98,2,Deux")
        + "93,,Nobody,X,DD,0\n"
    )
    data = load_congress("senate")
    assert data.table.columns.tolist() == [
        "One, X (AA)",
        "Three, X (CC)",
        "Two, X (BB)",
    ]
    assert "1 scores of members without an identifying number" in data.description


@pytest.mark.parametrize(
    "text, complaint",
    [
        (senate(missing=[(2, 97), (3, 93)]), "fewer than two members"),
        (
            senate(missing=[(1, 97), (2, 97), (3, 97)]),
            r"no scores for the Congresses \[97\]",
        ),
        (senate(extra="97,2,Two,X,BB,0.3\n"), "two scores in one Congress"),
    ],
)
def test_a_congress_that_makes_no_table(local, text, complaint):
    local(congress_senate=text)
    with pytest.raises(DataError, match=complaint):
        load_congress("senate")


@pytest.mark.parametrize("chamber", ["House", "", None, 93])
def test_unknown_chamber(chamber, monkeypatch):
    monkeypatch.setattr(datasets, "fetch_file", None)
    with pytest.raises(InputError, match="chamber="):
        load_congress(chamber)


@pytest.mark.parametrize(
    "chamber, key, p",
    [("house", "congress_house", 74), ("senate", "congress_senate", 19)],
)
def test_congress_when_it_is_there(chamber, key, p):
    need(key)
    data = load_congress(chamber)
    assert (
        data.table.shape == (10, p)
        and data.table.columns.is_unique
        and data.truth is None
    )
    assert (data.table >= 0).all(axis=None) and (data.table <= data.bounds[1]).all(
        axis=None
    )
    assert 100 <= data.bounds[1][0] <= (110 if chamber == "senate" else 450)


# ---------------------------------------------------------------------- radar and brain


def test_unknown_label():
    assert datasets._is_good(pd.Series([1, 2])).tolist() == [True, False]
    with pytest.raises(DataError, match=r"not \[3\]"):
        datasets._is_good(pd.Series([1, 3]))


def test_ionosphere_when_it_is_there():
    need("ionosphere")
    data, labels = load_ionosphere(), ionosphere_labels()
    assert data.table.shape == (351, 33) and len(labels) == 351 and labels.sum() == 225
    assert (
        "im 1" not in data.table
        and "good" not in data.table
        and (data.table.nunique() > 1).all()
    )
    assert data.table.abs().max(axis=None) == data.bounds[1].max() == 1


def test_stand_in_when_it_is_there():
    need("fmri_rois")
    data = load_fmri()
    assert data.table.shape == (250, 28) and not {"WM", "Vent", "Brain"} & set(
        data.table
    )
    assert "STAND-IN" in repr(data) + data.description and data.name != "msdl"


def fake_nilearn(monkeypatch, failure=None):
    "Modules that behave as the parts of nilearn that are used, with 39 regions and 5 images."

    class Masker:
        def __init__(self, maps_img, standardize):
            assert (maps_img, standardize) == ("maps.nii", "zscore_sample")

        def fit_transform(self, image, confounds):
            assert (image, confounds) == ("subject.nii", "subject.tsv")
            return np.arange(5 * 39.0).reshape(5, 39)

    def atlas():
        if failure is not None:
            raise failure
        return types.SimpleNamespace(
            maps="maps.nii", labels=[f"region {j}" for j in range(39)]
        )

    package, data, maskers = (
        types.ModuleType(f"nilearn{part}") for part in ("", ".datasets", ".maskers")
    )
    (
        package.datasets,
        package.maskers,
        maskers.NiftiMapsMasker,
        data.fetch_atlas_msdl,
    ) = (data, maskers, Masker, atlas)
    data.fetch_development_fmri = lambda n_subjects: types.SimpleNamespace(
        func=["subject.nii"] * n_subjects, confounds=["subject.tsv"] * n_subjects
    )
    for module in (package, data, maskers):
        monkeypatch.setitem(sys.modules, module.__name__, module)


def test_msdl_by_nilearn(monkeypatch):
    fake_nilearn(monkeypatch)
    data = load_msdl()
    assert (
        data.table.shape == (5, 39)
        and data.table.columns[38] == "region 38"
        and data.truth is None
    )


@pytest.mark.parametrize(
    "failure",
    [requests.ConnectionError("no route"), OSError("disk full"), ValueError("broken")],
)
def test_msdl_without_a_network(monkeypatch, failure):
    fake_nilearn(monkeypatch, failure)
    with pytest.raises(DataError, match=f"{failure}.*needs a network"):
        load_msdl()


def test_msdl_without_nilearn(monkeypatch):
    monkeypatch.setitem(sys.modules, "nilearn", None)
    monkeypatch.setitem(sys.modules, "nilearn.datasets", None)
    with pytest.raises(DataError, match="pip install nilearn"):
        load_msdl()


# ---------------------------------------------------------------------- film ratings

RATINGS = [(1, 10, 5), (1, 20, 3), (2, 20, 4), (3, 40, 1), (3, 20, 2), (9, 50, 1)]
FILMS = {
    10: ("Ant: the (1990)", "Comedy|Drama"),
    20: ('"Bee" (1991)', "Drama"),
    30: ("Cat (1992)", "Drama"),
    40: ("Fée (1993)", "Drama|Comedy"),
    50: ("None (1994)", ""),
}
GENRES = ["unknown", "Action", "Comedy", "Drama", *map(str, range(15))]


def ml_1m(ratings=RATINGS, films=FILMS):
    "The files of ml-1m.zip."
    return {
        "ratings.dat": "".join(f"{u}::{m}::{r}::978300760\n" for u, m, r in ratings),
        "movies.dat": "".join(
            f"{m}::{title}::{genres}\n" for m, (title, genres) in films.items()
        ),
    }


def ml_100k(ratings=RATINGS, films=FILMS):
    "The files of ml-100k.zip."

    def item(movie, title, genres):
        flags = [int(genre in (genres or "unknown").split("|")) for genre in GENRES]
        return (
            "|".join(
                map(
                    str,
                    [movie, title, "01-Jan-1995", "", "http://us.imdb.com/M?", *flags],
                )
            )
            + "\n"
        )

    return {
        "u.data": "".join(f"{u}\t{m}\t{r}\t881250949\n" for u, m, r in ratings),
        "u.item": "".join(item(m, *film) for m, film in films.items()),
    }


def zipped(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(f"ml/{name}", text.encode("latin-1"))
    return path


@pytest.mark.parametrize("layout", [ml_1m, ml_100k])
def test_ratings_and_genres(tmp_path, layout):
    data = load_movielens(zipped(tmp_path / "ml.zip", layout()), movies=4)
    assert data.table.columns.tolist() == [
        "10: Ant: the (1990)",
        '20: "Bee" (1991)',
        "40: Fée (1993)",
        "50: None (1994)",
    ]
    assert data.table.to_numpy().tolist() == [
        [5, 3, 0, 0],
        [0, 4, 0, 0],
        [0, 2, 1, 0],
        [0, 0, 0, 1],
    ]
    assert data.table.index.tolist() == [1, 2, 3, 9] and data.kind == "integer"
    assert np.argwhere(data.truth).tolist() == [[0, 2], [2, 0]]
    assert "not an archive that GroupLens published" in data.source[0]


def test_users_who_rated_none_of_the_films_keep_their_row(tmp_path):
    path = zipped(tmp_path / "ml.zip", ml_1m())
    assert load_movielens(path, movies=2).table.loc[9].tolist() == [0, 0]
    popular = load_movielens(path, movies=2, choice="most_rated")
    assert popular.table.columns[0] == '20: "Bee" (1991)' and popular.table.columns[
        1
    ].startswith("10:")


def test_two_films_without_a_genre_are_not_joined():
    assert datasets._genre_graph(["", "", "Drama", "Drama"]).sum() == 2


def test_the_published_archive_is_recognised(tmp_path, register):
    path = zipped(tmp_path / "ml.zip", ml_1m())
    digest = hashlib.md5(path.read_bytes()).hexdigest()
    register(
        movielens_1m={
            "archive_md5": digest,
            "archive": "https://example.org/ml-1m.zip",
        },
        movielens_100k={"archive_md5": "0", "archive": "other"},
    )
    assert datasets._whose_archive(path) == "https://example.org/ml-1m.zip"


@pytest.mark.parametrize("layout", [ml_1m, ml_100k])
@pytest.mark.parametrize(
    "ratings, films, complaint",
    [
        ([*RATINGS, (4, 10, 6)], FILMS, "not 1 to 5"),
        ([*RATINGS, (4, 10, 0)], FILMS, "not 1 to 5"),
        ([*RATINGS, (1, 10, 4)], FILMS, "two ratings of one movie"),
        ([*RATINGS, (1, 99, 4)], FILMS, r"does not list.*\[99\]"),
        ([*RATINGS, (1, "ten", 4)], FILMS, "damaged"),
        ([*RATINGS, (1, 10, "")], FILMS, "damaged"),
        ([], FILMS, "damaged|files.grouplens.org"),
    ],
)
def test_broken_ratings(tmp_path, layout, ratings, films, complaint):
    path = zipped(tmp_path / "ml.zip", layout(ratings, films))
    with pytest.raises(
        (DataError, InputError), match=complaint if ratings else "only 0 films"
    ):
        load_movielens(path, movies=2)


@pytest.mark.parametrize("keep", [0, 1, 100, -1, -30])
def test_truncated_archive(tmp_path, keep):
    path = zipped(tmp_path / "ml.zip", ml_1m())
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(
        DataError,
        match="damaged.*fetch https://files.grouplens.org/datasets/movielens/ml-1m.zip",
    ):
        load_movielens(path, movies=2)


def test_flipped_bits_in_an_archive(tmp_path):
    path = zipped(tmp_path / "ml.zip", ml_1m())
    content = bytearray(path.read_bytes())
    content[60:80] = bytes(20)
    path.write_bytes(content)
    with pytest.raises(DataError, match="damaged"):
        load_movielens(path, movies=2)


def test_archive_of_something_else(tmp_path):
    path = zipped(
        tmp_path / "ml.zip", {"ratings.csv": "1,2,3\n", "movies.dat": "1::A::B\n"}
    )
    with pytest.raises(DataError, match="holds neither"):
        load_movielens(path, movies=2)


def test_no_archive_says_what_to_fetch_and_where_to_put_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVGLASSO_DATA", str(tmp_path))
    with pytest.raises(
        DataError,
        match=(
            r"fetch https://files.grouplens.org/.*/ml-1m.zip and put it at .*ml-1m.zip"
        ),
    ):
        load_movielens()
    with pytest.raises(DataError, match="there is no"):
        load_movielens(tmp_path)


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        ({"choice": "best"}, "choice="),
        ({"movies": 1}, "movies="),
        ({"movies": 2.5}, "movies="),
        ({"movies": 5}, "only 4 films are rated"),
    ],
)
def test_bad_choice_of_films(tmp_path, arguments, complaint):
    with pytest.raises(InputError, match=complaint):
        load_movielens(zipped(tmp_path / "ml.zip", ml_1m()), **arguments)


# ---------------------------------------------------------------------- the grids


@pytest.mark.parametrize(
    "load, lines, shape",
    [
        (load_grid11, GRID11_LINES, (20_000, 11)),
        (load_grid115, GRID115_LINES, (5_000, 115)),
    ],
)
def test_grid_is_the_registered_one(load, lines, shape):
    grid = load()
    assert grid.table.shape == shape
    assert grid.truth.sum() == 2 * len(lines) == 2 * (shape[1] - 1)
    assert all(grid.truth[one - 1, other - 1] for one, other in lines)
    low, high = grid.bounds
    assert ((low < grid.table) & (grid.table < high)).all(axis=None)


@pytest.mark.parametrize(
    "load, simulate", [(load_grid11, simulate_grid11), (load_grid115, simulate_grid115)]
)
def test_first_snapshots_are_made_again(load, simulate):
    pytest.importorskip(
        "pandapower", reason="the grids are simulated by the optional pandapower"
    )
    stored = np.rint(load().table.to_numpy()[:15] * 1e6)
    assert np.abs(simulate(15) - stored).max() <= 1


def test_village_is_built_alike_every_time():
    pandapower = pytest.importorskip(
        "pandapower", reason="the grids are simulated by the optional pandapower"
    )
    one, other = (datasets._grid115_network(pandapower).line for _ in range(2))
    assert one.equals(other) and one["std_type"].value_counts().to_dict() == {
        "NAYY 4x150": 57,
        "NAYY 4x50": 57,
    }
    assert set(zip(one["from_bus"], one["to_bus"], strict=True)) == set(GRID115_LINES)


@pytest.mark.parametrize("simulate", [simulate_grid11, simulate_grid115])
def test_without_pandapower_the_error_names_the_extra(monkeypatch, simulate):
    monkeypatch.setitem(sys.modules, "pandapower", None)
    with pytest.raises(DataError, match=r"privglasso\[grid\]"):
        simulate(2)


@pytest.mark.parametrize("simulate", [simulate_grid11, simulate_grid115])
@pytest.mark.parametrize("n", [0, 1.5, "ten"])
def test_bad_number_of_snapshots(simulate, n):
    with pytest.raises(InputError, match="n="):
        simulate(n)


@pytest.mark.parametrize(
    "name, write", [("grid11", write_grid11), ("grid115", write_grid115)]
)
def test_failed_simulation_leaves_no_file(tmp_path, monkeypatch, name, write):
    monkeypatch.setattr(
        datasets, f"simulate_{name}", lambda: np.zeros(3, dtype=np.int32)
    )
    monkeypatch.setattr(
        datasets.np,
        "savez_compressed",
        lambda file, voltage: file.write(b"half") and 1 / 0,
    )
    with pytest.raises(ZeroDivisionError):
        write(tmp_path / "grid.npz")
    assert files_in(tmp_path) == []


def truncated(path):
    path.write_bytes(path.read_bytes()[:-1000])


def flipped(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def emptied(path):
    path.write_bytes(b"")


def removed(path):
    path.unlink()


def other_array(path):
    np.savez_compressed(path, current=np.zeros(3))


def one_value_changed(path):
    voltages = np.load(path)["voltage"]
    voltages[0, 0] += 1
    np.savez_compressed(path, voltage=voltages)


def wrong_type(path):
    np.savez_compressed(path, voltage=np.load(path)["voltage"].astype(np.int64))


def pickled(path):
    np.savez_compressed(path, voltage=np.array([{}], dtype=object))


def bare_array(path):
    with open(path, "wb") as file:
        np.save(file, np.zeros(3))


@pytest.mark.parametrize(
    "damage",
    [
        truncated,
        flipped,
        emptied,
        removed,
        other_array,
        one_value_changed,
        wrong_type,
        pickled,
        bare_array,
    ],
)
@pytest.mark.parametrize("name", ["grid11", "grid115"])
def test_damage_to_the_stored_grid_is_noticed(tmp_path, name, damage):
    path = tmp_path / f"{name}.npz"
    path.write_bytes(resource(f"data/{name}.npz").read_bytes())
    datasets._read_grid(name, path)
    damage(path)
    with pytest.raises(DataError, match=f"write_{name}"):
        datasets._read_grid(name, path)


# ---------------------------------------------------------------------- all of them, and the paper's epsilon


def test_overview_without_any_download(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVGLASSO_DATA", str(tmp_path))
    monkeypatch.setattr(datasets.pooch, "retrieve", None)
    table = data_overview()
    assert table.index.tolist() == list(datasets._LOADERS) and len(table) == 11
    here = table[table["available"] == "with the project"]
    assert (
        here.index.tolist()
        == ["grid11", "grid115"]
        == table.dropna(subset=["rows"]).index.tolist()
    )
    assert (here["rank"] == here["columns"]).all() and (here["condition"] > 1e5).all()
    assert (
        table.loc["house", "available"] == "download"
        and "licence" in table.loc["movielens", "available"]
    )


def test_overview_measures_what_is_there(local):
    local(chickenpox=WEEKS, chickenpox_edges=BORDERS)
    row = data_overview().loc["chickenpox"]
    assert (row["rows"], row["columns"], row["true edges"], row["rank"]) == (
        2,
        3,
        2,
        1,
    ) and np.isinf(row["condition"])
    assert row["available"] == "in the cache" and not row["bounds"]


def test_overview_does_not_hide_a_wrong_file(local, tmp_path):
    local(soil=",7,8\nx,1,3\n")
    (tmp_path / "soil" / "soil_116.csv").write_text(",7,8\nx,1,4\n")
    with pytest.raises(DataError, match="not the registered file"):
        data_overview()


PUBLISHED = pd.read_csv(resource("data/published/guo_table2.csv")).dropna(
    subset="epsilon_stated"
)


@pytest.mark.parametrize(
    "name, published, keys",
    [
        ("sachs", "cell_signalling", ["sachs", "sachs_truth_18"]),
        ("chickenpox", "chickenpox", ["chickenpox", "chickenpox_edges"]),
        ("soil", "soil", ["soil"]),
        ("house", "congress", ["congress_house"]),
    ],
)
def test_printed_epsilon_is_recomputed(name, published, keys):
    need(*keys)
    table = paper_table(name)
    rows = PUBLISHED[PUBLISHED["dataset"] == published].set_index("snr_db")[
        "epsilon_stated"
    ]
    assert rows.index.tolist() == [100, 80, 60, 40, 20, 10]
    for snr_db, printed in rows.drop(10).items():
        assert paper_epsilon(table, snr_db) == pytest.approx(printed, rel=0.01)
    assert paper_epsilon(table, 0) == pytest.approx(
        rows[10], rel=0.01
    )  # the row that says 10 dB


def test_other_preparations_do_not_give_the_printed_epsilon():
    need("sachs", "sachs_truth_18", "congress_senate")
    assert paper_epsilon(load_sachs().table, 100) > 10 * 85_500
    senators = load_congress("senate").table
    assert paper_epsilon(
        (senators - senators.mean()) / senators.std(ddof=0), 100
    ) == pytest.approx(3.2e5, rel=0.01)


def test_paper_table_of_films(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVGLASSO_DATA", str(tmp_path))
    (tmp_path / "movielens").mkdir()
    films = {movie: (f"Film {movie}", "Drama") for movie in range(1, 121)}
    ratings = [
        (user, movie, 1 + (user + movie) % 5) for user in range(3) for movie in films
    ]
    zipped(tmp_path / "movielens" / "ml-1m.zip", ml_1m(ratings, films))
    table = paper_table("movielens")
    assert table.shape == (3, 100) and {dtype.kind for dtype in table.dtypes} == {"f"}
    assert data_overview().loc[
        "movielens", ["rows", "columns", "true edges"]
    ].tolist() == [3, 100, 4950]


@pytest.mark.parametrize("name", ["grid11", "Sachs", "", None])
def test_unknown_preparation(name):
    with pytest.raises(InputError, match="the paper's preparation is known for"):
        paper_table(name)


@pytest.mark.parametrize(
    "table, snr_db, complaint",
    [
        (np.ones((3, 2)), 20, "constant"),
        ([[1.0, np.nan], [2.0, 3.0]], 20, "NaN"),
        ([1.0, 2.0], 20, "dimensions"),
        ([[0.0, 1.0], [1.0, 0.0]], np.inf, "snr_db="),
    ],
)
def test_bad_input_to_the_printed_epsilon(table, snr_db, complaint):
    with pytest.raises(InputError, match=complaint):
        paper_epsilon(table, snr_db)


@pytest.mark.parametrize("factor", [1e-3, 0.1, 7.0])
def test_printed_epsilon_has_a_unit(factor):
    table = np.random.default_rng(3).gamma(2.0, size=(40, 4))
    assert paper_epsilon(factor * table, 15) == pytest.approx(
        factor * paper_epsilon(table, 15)
    )
    assert paper_epsilon(table, 35) == pytest.approx(10 * paper_epsilon(table, 15))
