"""Every exercise of every lecture: its mistakes get the hints that were meant."""

import importlib
import pkgutil

import pytest

import privglasso.course
from privglasso.course.exercise import Mistake, WrongAnswer

MODULES = [
    importlib.import_module(f"privglasso.course.{module.name}")
    for module in pkgutil.iter_modules(privglasso.course.__path__)
]
SHEETS = [module.SHEET for module in MODULES if hasattr(module, "SHEET")]
EXERCISES = [
    pytest.param(sheet, k, id=f"{sheet.name}-{k}")
    for sheet in SHEETS
    for k in range(1, len(sheet) + 1)
]
BLANK = (None, ..., object(), "", [], "what is asked here?")


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda sheet: sheet.name)
def test_a_sheet_has_five_exercises(sheet):
    assert len(sheet) == 5


@pytest.mark.parametrize(("sheet", "number"), EXERCISES)
def test_a_right_answer_is_accepted(sheet, number, capsys):
    sheet.check(number, sheet.exercises[number - 1].answer)
    assert "right" in capsys.readouterr().out


@pytest.mark.parametrize(("sheet", "number"), EXERCISES)
def test_every_mistake_gets_its_own_hint(sheet, number):
    exercise = sheet.exercises[number - 1]
    assert len(exercise.mistakes) >= 5
    hints = [exercise.hint, *(mistake.hint for mistake in exercise.mistakes)]
    assert len(set(hints)) == len(hints)
    for mistake in exercise.mistakes:
        assert sheet.hint(number, mistake.answer) == mistake.hint
        with pytest.raises(WrongAnswer):
            sheet.check(number, mistake.answer)


@pytest.mark.parametrize(("sheet", "number"), EXERCISES)
def test_what_is_no_answer_gets_a_hint(sheet, number):
    for given in BLANK:
        assert sheet.hint(number, given)


def test_mistakes_are_stated_as_answers():
    for sheet in SHEETS:
        for exercise in sheet.exercises:
            assert all(isinstance(mistake, Mistake) for mistake in exercise.mistakes)
