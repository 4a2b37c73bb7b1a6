"""Long formulas are cut between terms, with every bracket closed and every term counted."""

import pytest

from diffnea.cli.words.formulas import short

TERMS = [f"0.1{k}·m·c_z(link_{k})" for k in range(9)]


@pytest.mark.parametrize("sign", [" + ", " − "])
@pytest.mark.parametrize("frame", ["{}", "({}) / torque per volt(cart)", "J(a)·({})"])
def test_terms_that_do_not_fit_are_counted(sign, frame):
    whole = frame.format(sign.join(TERMS))
    found = short(whole, 72)
    before, _, after = frame.partition("{}")
    kept = found.removeprefix(before).removesuffix(after).split(" + … ")[0]
    left = int(found.split(" + … ")[1].split()[0])
    assert len(found) <= 72 and found.startswith(before) and found.endswith(after)
    assert kept == sign.join(TERMS[: len(TERMS) - left]) and 0 < left < len(TERMS)


def test_inner_sums_count_as_one_term():
    whole = "J(a) + 0.3·(m(b) + m(c) + m(d)) + " + " + ".join(TERMS)
    assert short(whole, 72) == f"J(a) + 0.3·(m(b) + m(c) + m(d)) + {TERMS[0]} + … 8 more"


@pytest.mark.parametrize("formula", ["m(cart)", " / ".join(TERMS), "(" + TERMS[0] + ") / " + "x" * 80])
def test_what_is_short_or_no_sum_stays(formula):
    assert short(formula, 72) == formula
