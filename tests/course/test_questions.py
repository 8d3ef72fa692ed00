"""The question bank: every number in it is right, and no wrong answer is."""

import re

import numpy as np
import pytest
from scipy.stats import norm

import privglasso as pg
from privglasso.base.validation import InputError
from privglasso.course.questions import load_questions, quiz, to_gift, to_html

QUESTIONS = load_questions()
VERIFIED = [question for question in QUESTIONS if question.verify]
ESCAPED = re.compile(r"\\[~=#{}:\\]")


def number(text):
    "The number a short answer writes out, such as 1/17; None for words."
    found = re.fullmatch(r"(-?[\d.]+)(?:/(\d+))?", text)
    return found and float(found[1]) / float(found[2] or 1)


def value(question):
    "What the question's expression gives."
    return eval(question.verify, {"pg": pg, "np": np, "norm": norm})


@pytest.mark.parametrize("question", VERIFIED, ids=lambda question: question.right)
def test_numbers_are_right(question):
    found, right = value(question), number(question.right)
    if isinstance(found, (bool, np.bool_)):
        assert found
    else:
        assert found == pytest.approx(right, rel=1e-5)
        for wrong in filter(None, map(number, question.wrong)):
            assert found != pytest.approx(wrong, rel=1e-2)


def test_a_number_has_an_expression():
    assert [q.text for q in QUESTIONS if number(q.right) and not q.verify] == []


def test_the_bank_is_whole():
    assert len(QUESTIONS) == len({question.text for question in QUESTIONS}) == 60
    for question in QUESTIONS:
        assert len({question.right, *question.wrong}) == 4
        assert question.why.endswith(".")
        assert sorted(question.options(1)) == sorted([question.right, *question.wrong])


def test_quizzes_are_drawn_without_repetition():
    drawn = quiz(8, "graphs", random_state=3)
    assert {question.text for question in drawn} == {
        question.text for question in load_questions("graphs")
    }
    with pytest.raises(InputError, match="choose one of"):
        quiz(3, "grafs")


def test_gift_holds_no_sign_that_is_not_meant():
    blocks = to_gift(QUESTIONS).split("\n\n")
    assert len(blocks) == 60
    for block in blocks:
        body = ESCAPED.sub("", block)
        assert body.count("{") == body.count("}") == body.count("=") == 1
        assert (body.count("~"), body.count("::")) == (3, 2)


def test_html_escapes_what_a_question_says():
    assert to_html(QUESTIONS).count("<details>") == 60
