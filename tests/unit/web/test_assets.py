"""Files that we serve."""

from __future__ import annotations

from offsider.web.assets import Assets, own_assets


def test_the_name_of_a_file_changes_with_its_content(tmp_path):
    file = tmp_path / "a.css"
    file.write_text("one")
    before = Assets({"a.css": file})
    file.write_text("two")
    after = Assets({"a.css": file})
    assert before.name_of("a.css") != after.name_of("a.css")
    assert before.find(before.name_of("a.css")).content == b"one"
    assert after.find(before.name_of("a.css")) is None
    assert after.find("a.css") is None
    assert "a.css" in after


def test_assets_are_local_and_small():
    for plain in (*own_assets().of_kind(".css"), *own_assets().of_kind(".js")):
        asset = own_assets().find(own_assets().name_of(plain))
        assert asset.media_type.startswith("text/")
        assert len(asset.content) < 64 * 1024
        for foreign in (b"http://", b"https://", b"@import", b"eval(", b"innerHTML"):
            found = asset.content.replace(b"http://www.w3.org/2000/svg", b"")
            assert foreign not in found, f"{foreign!r} in {plain}"
