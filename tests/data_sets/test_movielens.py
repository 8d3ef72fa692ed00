"""Film ratings: both formats of GroupLens, and archives broken in every way."""

import hashlib
import zipfile

import numpy as np
import pytest

from privglasso.base.validation import InputError
from privglasso.data_sets import movielens
from privglasso.data_sets.dataset import DataError
from privglasso.data_sets.movielens import load_movielens

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
    assert movielens._genre_graph(["", "", "Drama", "Drama"]).sum() == 2


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
    assert movielens._whose_archive(path) == "https://example.org/ml-1m.zip"


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
def test_broken_ratings(tmp_path, ratings, films, complaint):
    path = zipped(tmp_path / "ml.zip", ml_1m(ratings, films))
    with pytest.raises(
        (DataError, InputError), match=complaint if ratings else "only 0 films"
    ):
        load_movielens(path, movies=2)


@pytest.mark.parametrize("keep", [0, 100, -1])
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
