"""Settings: typed, shared between profiles, and named when they are wrong."""

import configparser

import pytest

from privglasso.base.settings import SettingsError, resource, setting

GOOD = "[DEFAULT]\nseed = 3\n[quick]\nlevels = 1, 2\nname = grid\n[full]\nlevels = 5\n"


@pytest.fixture
def settings_file(tmp_path):
    def write(text):
        path = tmp_path / "settings.ini"
        path.write_text(text)
        return path

    return write


def test_kinds_profiles_and_defaults(settings_file):
    path = settings_file(GOOD)
    assert setting("levels", [int], path=path) == [1, 2]
    assert setting("levels", [float], "full", path) == [5.0]
    assert setting("name", str, path=path) == "grid"
    assert setting("seed", int, "full", path) == 3


@pytest.mark.parametrize(
    "key, kind, profile, text, complaint",
    [
        ("absent", int, "quick", GOOD, "'absent' is missing.*quick"),
        ("name", int, "quick", GOOD, "name = 'grid'"),
        ("levels", [int], "quick", GOOD.replace("1, 2", "1, two"), "levels = '1, two'"),
        ("seed", int, "slow", GOOD, "profile='slow'"),
        ("name", str, "full", GOOD, "'name' is missing.*full"),
        ("seed", int, "quick", "seed = 3\n", "cannot be read"),
        ("seed", int, "quick", "[quick]\nseed = 1\nseed = 2\n", "cannot be read"),
    ],
)
def test_bad_settings_are_named(settings_file, key, kind, profile, text, complaint):
    with pytest.raises(SettingsError, match=complaint):
        setting(key, kind, profile, settings_file(text))


def test_a_missing_settings_file_is_named(tmp_path):
    with pytest.raises(SettingsError, match="nowhere.ini"):
        setting("seed", int, path=tmp_path / "nowhere.ini")
    with pytest.raises(SettingsError, match="no/such/resource"):
        resource("no/such/resource")


def test_every_setting_of_the_project_is_in_both_profiles():
    parser = configparser.ConfigParser()
    parser.read(resource("settings.ini"))
    assert set(parser.options("quick")) == set(parser.options("full"))


def test_a_file_that_was_edited_is_read_anew(settings_file):
    assert setting("seed", int, path=settings_file(GOOD)) == 3
    assert setting("seed", int, path=settings_file(GOOD.replace("3", "4"))) == 4
