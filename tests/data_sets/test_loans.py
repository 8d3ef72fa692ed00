"""Loans: places of ordered words, words asked for, gaps that stay gaps."""

import numpy as np
import pandas as pd
import pytest

from privglasso.data_sets.dataset import DataError, fetch_file
from privglasso.data_sets.loans import load_loans, loans_schema
from privglasso.publish.schema import Schema

FILE = """\
rownames,emp_title,state,grade,sub_grade,issue_month,homeownership,verified_income,\
verification_income_joint,loan_purpose,application_type,loan_status,\
initial_listing_status,disbursement_method,annual_income
1,cook,NJ,C,C3,Mar-2018,RENT,Verified,,moving,individual,Current,whole,Cash,90000
2,owner,HI,A,A1,Jan-2018,OWN,Not Verified,Verified,credit_card,joint,Late,whole,Cash,
"""


def test_words_become_numbers_and_gaps_stay(local):
    local(loans=FILE)
    table = load_loans().table
    assert not {"rownames", "emp_title", "state", "grade"} & set(table.columns)
    assert table["sub_grade"].tolist() == [13, 1]
    assert table["issue_month"].tolist() == [3, 1]
    assert table["homeownership=RENT"].tolist() == [1, 0]
    assert table["loan_purpose=credit_card"].tolist() == [0, 1]
    joint = table["verification_income_joint=Verified"]
    assert np.isnan(joint[0]) and joint[1] == 1
    assert np.isnan(table["annual_income"][1])
    assert set(table.dtypes) == {np.dtype(float)}


def test_a_grade_that_is_not_on_the_scale(local):
    local(loans=FILE.replace("C3", "H1"))
    with pytest.raises(DataError, match=r"sub_grade .*\['H1'\]"):
        load_loans()


@pytest.mark.data("loans")
def test_no_number_and_no_gap_is_changed():
    file, table = pd.read_csv(fetch_file("loans")), load_loans().table
    numbers = file.select_dtypes("number").drop(columns="rownames")
    assert numbers.shape[1] == 42
    kept = table[numbers.columns]
    assert kept.equals(numbers.astype(float))
    assert table.isna().any().sum() == 10


def test_a_schema_for_any_of_the_columns():
    stated = loans_schema(["loan_amount", "homeownership=RENT", "emp_length"])
    assert stated["loan_amount"] == {"kind": "real"}
    assert stated["homeownership=RENT"]["high"] == 1
    assert stated["emp_length"]["fill"] == 0
    table = pd.DataFrame(
        {"loan_amount": [9e3], "homeownership=RENT": [np.nan], "emp_length": [12.0]}
    )
    assert Schema(stated).apply(table).to_numpy().tolist() == [[9e3, 0.0, 10.0]]
