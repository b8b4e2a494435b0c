"""The chart is SVG that any browser reads: bars in proportion, names escaped, colours for light and dark."""

from xml.etree import ElementTree as ET

from bench.compare.chart import Panel, chart

SVG = "{http://www.w3.org/2000/svg}"


def drawn(*panels: Panel) -> ET.Element:
    return ET.fromstring(chart(panels, highlight="ours", description='a "chart"'))


def test_bars_are_as_long_as_their_values():
    bars = drawn(Panel("Jobs", [("ours", 200.0), ("theirs", 50.0)])).findall(f"{SVG}rect")
    widths = [float(bar.get("width", "0")) for bar in bars]
    assert widths[0] == 4 * widths[1]
    assert [bar.get("class") for bar in bars] == ["ours", "other"]


def test_names_and_values_are_beside_the_bars():
    texts = [text.text for text in drawn(Panel("<Jobs>", [("ours", 1234.56)], digits=1)).findall(f"{SVG}text")]
    assert texts == ["<Jobs>", "ours", "1,234.6"]


def test_panels_do_not_overlap_and_all_are_inside():
    picture = drawn(Panel("A", [("a", 1.0)] * 3), Panel("B", [("b", 2.0)] * 4), Panel("nobody", []))
    tops = [float(bar.get("y", "0")) for bar in picture.findall(f"{SVG}rect")]
    assert tops == sorted(set(tops))
    assert tops[-1] < float(picture.get("height", "0"))
    assert "nobody" not in ET.tostring(picture, "unicode")


def test_a_bar_of_nothing_is_still_seen():
    assert drawn(Panel("Jobs", [("ours", 0.0)])).findall(f"{SVG}rect")[0].get("width") == "1.0"


def test_it_is_readable_on_light_and_dark():
    assert "prefers-color-scheme: dark" in chart([Panel("A", [("a", 1.0)])], highlight="a", description="")
