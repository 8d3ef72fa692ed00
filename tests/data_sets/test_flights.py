"""Flights: clock times in minutes, names left out, nothing missing."""

import pandas as pd
import pytest

from privglasso.data_sets.dataset import fetch_file
from privglasso.data_sets.flights import flights_schema, load_flights, minutes_of_clock
from privglasso.publish.schema import Schema

FILE = """\
rownames,year,month,day,dep_time,dep_delay,arr_time,arr_delay,carrier,tailnum,\
flight,origin,dest,air_time,distance,hour,minute
1,2013,6,30,940,15,2400,-4,VX,N626VA,407,JFK,LAX,313,2475,9,40
2,2013,5,7,5,-3,104,10,DL,N3760C,329,EWR,SJU,216,1598,0,5
"""


def test_every_minute_of_the_day():
    minutes = pd.Series(range(1441))
    clock = minutes // 60 * 100 + minutes % 60
    assert minutes_of_clock(clock).equals(minutes)


def test_times_become_minutes_and_names_go(local):
    local(flights=FILE)
    table = load_flights().table
    assert table["dep_time"].tolist() == [580, 5]
    assert table["arr_time"].tolist() == [1440, 64]
    assert table["origin=JFK"].tolist() == [1, 0]
    assert table["carrier=DL"].tolist() == [0, 1]
    assert not {"flight", "tailnum", "year", "hour", "dest"} & set(table.columns)


@pytest.mark.data("flights")
def test_left_out_columns_say_nothing_new():
    file, table = pd.read_csv(fetch_file("flights")), load_flights().table
    assert file["year"].unique().tolist() == [2013]
    assert table["dep_time"].equals((60 * file["hour"] + file["minute"]).astype(float))
    assert not table.isna().any(axis=None)


def test_a_schema_for_any_of_the_columns():
    stated = flights_schema(["day", "dep_time", "dep_delay", "carrier=AA"])
    assert stated["dep_delay"] == {"kind": "real"}
    levels = {"day": (1, 31), "carrier=AA": (0, 1)}
    schema = Schema(stated)
    assert schema.levels == levels and schema.limits()["dep_time"] == (0, 1440)
