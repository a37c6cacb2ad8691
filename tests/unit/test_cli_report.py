"""``draftscope report``: one file, and what it refuses."""

from __future__ import annotations


def test_report_is_one_file_that_asks_nobody(draftscope, shipped, tmp_path):
    path = tmp_path / "build" / "report.html"
    ran = draftscope("report", "--device", "pixel_9", "--draft-length", "1-2", "--out", path)
    assert ran.code == 0, ran.err
    assert ran.out == ""
    assert f"wrote {path}" in ran.err
    assert "note: " not in ran.err  # they are in the file
    text = path.read_text()
    assert "smollm2_mtp_head" in text
    assert ' src="http' not in text


def test_report_refuses_bad_input(draftscope, shipped, tmp_path):
    for arguments, word in (
        (("--device", "pixel9"), "'pixel_9'"),
        (("--draft-length", "0"), "--draft-length"),
        (("--acceptance-trace", tmp_path / "no.parquet"), "no such file"),
    ):
        ran = draftscope("report", *arguments, "--out", tmp_path / "x.html")
        assert ran.code == 2
        assert word in ran.err
        assert not (tmp_path / "x.html").exists()
