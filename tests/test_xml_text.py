"""XML with byte positions: spans are right, edits touch only what they name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffnea.formats.xml_text import Edits, XMLFault, format_numbers, parse

TEXT = b'<?xml version="1.0"?>\r\n<!-- a > b --><a>\r\n  <b x = "1>2"  y=\'3\'/>\r\n  <c/>\r\n\t<d ><e/></d></a>'


def test_spans_are_the_text_of_each_element():
    document = parse(TEXT)
    texts = {element.tag: TEXT[element.start : element.end] for element in document.root.walk()}
    assert texts["b"] == b"<b x = \"1>2\"  y='3'/>"
    assert texts["d"] == b"<d ><e/></d>"
    assert texts["a"].startswith(b"<a>") and texts["a"].endswith(b"</a>")
    assert [element.line for element in document.root.children] == [3, 4, 5]


def test_edits_change_what_they_name_and_nothing_else():
    document = parse(TEXT)
    b, c, d = document.root.children
    edits = Edits(document)
    edits.set(b, "x", '5 & "6"')
    edits.set(b, "z", "7")
    edits.remove(b, "y")
    edits.add(c, "<k>\n  <l/>\n</k>")
    edits.add(d, "<first/>")
    assert edits.apply() == (
        b'<?xml version="1.0"?>\r\n<!-- a > b --><a>\r\n  <b x = "5 &amp; &quot;6&quot;" z="7"/>\r\n  <c>\r\n'
        b"    <k>\r\n      <l/>\r\n    </k>\r\n  </c>\r\n\t<d >\r\n\t<first/><e/></d></a>"
    )
    assert parse(edits.apply()).root.children[0].attributes == {"x": '5 & "6"', "z": "7"}


def test_elements_are_put_behind_the_others_and_taken_away():
    document = parse(TEXT)
    b, c, d = document.root.children
    edits = Edits(document)
    edits.drop(c)
    edits.append(document.root, "<k>\n  <l/>\n</k>")
    edits.append(b, "<first/>")
    assert edits.apply() == (
        b'<?xml version="1.0"?>\r\n<!-- a > b --><a>\r\n  <b x = "1>2"  y=\'3\'>\r\n    <first/>\r\n  </b>'
        b"\r\n\t<d ><e/></d>\r\n\t<k>\r\n\t  <l/>\r\n\t</k></a>"
    )


def test_no_edit_is_no_change():
    assert Edits(parse(TEXT)).apply() == TEXT


def test_other_encodings_come_back_as_they_were():
    text = '<?xml version="1.0" encoding="UTF-16"?><a name="für"><b/></a>'
    for data in (
        "\ufeff".encode("utf-16-le") + text.encode("utf-16-le"),
        text.replace("UTF-16", "latin-1").encode("latin-1"),
    ):
        document = parse(data)
        assert document.root.attributes["name"] == "für"
        assert Edits(document).apply() == data


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"<a>", "line 1: is not well-formed"), (b"<a/><b/>", "line 1"), (b"<!DOCTYPE a><a/>", "document type"),
     (b'<?xml version="1.0" encoding="ascii"?><a x="\xff"/>', "is not ascii text")],
)  # fmt: skip
def test_what_is_not_xml_is_said_to_be(data, message):
    with pytest.raises(XMLFault, match=message):
        parse(data)


@given(st.binary(max_size=200))
def test_no_bytes_make_the_parser_fail_in_another_way(data):
    try:
        parse(data)
    except XMLFault:
        pass


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_read_back_as_they_were(value):
    assert float(format_numbers(value)) == value
    assert "-0" != format_numbers(-0.0) == "0"
