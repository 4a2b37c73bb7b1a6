"""Numbers, lists and tables as a person reads them."""

import math

import pytest

from diffnea.text import aligned, count, few, length, listed, number


def test_numbers_have_few_digits_and_no_power_of_ten_where_they_are_large():
    assert [few(value) for value in (0.012345, 12.345, -38291.0, 2e10)] == ["0.0123", "12.3", "-38 300", "2e+10"]
    assert [number(value) for value in (1.23456, None, math.nan, math.inf)] == ["1.235", "?", "?", "?"]
    assert number(1.23456, 2) == "1.2"


def test_lengths_are_millimetres_and_degrees():
    assert length(0.0123, sliding=True) == "12.3 mm" and length(math.pi / 2, sliding=False) == "90°"
    assert length(math.inf, sliding=True) == "lost"


def test_things_are_counted_and_listed():
    assert (count(1, "joint"), count(0, "joint"), count(2, "joint")) == ("1 joint", "0 joints", "2 joints")
    assert [listed(names) for names in ([], "a", "ab", "abc")] == ["", "a", "a and b", "a, b and c"]
    assert listed("abcd", shown=2) == "a, b, c and d" and listed("abcde", shown=2) == "a, b and 3 more"


def test_cells_stand_under_each_other():
    assert aligned([["a", "long", "x"], ["bb", "", "y"]]) == ["a   long  x", "bb        y"]
    assert aligned([]) == []
    with pytest.raises(ValueError, match="zip"):
        aligned([["a"], ["b", "c"]])
