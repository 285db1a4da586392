"""The report page: complete, escaped, whole without a network; and the plots in it."""

import dataclasses
import math
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
import report_samples as samples

from tilewright.errors import StoreUnusable
from tilewright.records import Case, CaseResult, Config, DebugReport, Finding
from tilewright.report import plots, svg, words
from tilewright.report.html import ReportData, excerpt, render, write

SVG = "{http://www.w3.org/2000/svg}"
VOID = {"meta", "br", "hr", "img", "link", "input"}


class Page(HTMLParser):
    """Checks that elements nest, and gathers texts, headers and ids."""

    def __init__(self, text):
        super().__init__()
        self.open, self.texts, self.tags, self.ids, self.links = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.links += [attributes["href"]] if "href" in attributes else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


def everything():
    return ReportData(
        title="my_attention.py",
        environment=samples.HERE,
        debug=[
            ("my attention.py", samples.failing_report()),
            ("masked_softmax", samples.passing_report()),
            ("rope", samples.incomplete_report()),
        ],
        trials={"attention, prefill": {"a100": samples.predicted_trials(), "h100": samples.measured_trials()}},
        comparisons=samples.comparisons(),
        recorded=[("h100.json", samples.H100, samples.comparisons(Config({"BLOCK_M": 128})))],
        sources=samples.sources(),
        notes=["attention: wrong, so it is neither timed nor tuned"],
    )


@pytest.fixture(scope="module")
def text():
    return render(everything())


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def test_the_page_has_what_was_found(page):
    for said in (
        "attention FAIL 2 errors, in 2 of 3 cases",
        "2 programs, 128 lanes; first: program (1, 0, 0) reads k[0, 0, 127, 0], but k has shape 1x2x127x64",
        "my_attention.py:10",
        "missing-mask",
        "mask=offs_n[:, None] < N, other=0.0",
        f"tilewright debug 'my attention.py' --case {words.typed(words.case_option(samples.SMALL))}",
        "in 2 of 3 cases",
        "3 cases, worst error 0.42 of the tolerance",
        "9 of 10 cases not run",
        "BLOCK_M=128 BLOCK_N=64 num_warps=4",
        "infeasible: needs 256 KiB of shared memory, a program on h100 has 227",
        "3 of 5 configurations fit, 1 wrong",
        "1.205–1.222",
        "UNDECIDED",
        "noise floor up to 1.2 %",
        "h100.json",
        "NVIDIA H100 80GB HBM3 (sm_90), driver 570.86",
        "prefill: BLOCK_M=128",
        "attention: wrong, so it is neither timed nor tuned",
        "Intel Xeon, 8 cores",
    ):
        assert said in page.text, said


def test_a_users_text_is_escaped_wherever_it_stands(text, page):
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp;" in text
    assert '<script>alert("docstring")</script>' in page.text
    nasty = '<img src=x onerror="alert(1)">\x1b[31m'
    case = Case(nasty, {"name": nasty}, nasty)
    finding = Finding(
        nasty, nasty, tensor=nasty, file=nasty, line=1, source=nasty, case=case, cause=nasty, remedy=nasty
    )
    found = dataclasses.replace(samples.disagreement(), output=nasty)
    side = dataclasses.replace(samples.comparisons()[0].theirs, side=nasty)
    data = ReportData(
        title=nasty, environment=dataclasses.replace(samples.HERE, chip=nasty),
        debug=[(nasty, DebugReport(nasty, nasty, (CaseResult(case, (finding,), (found,)),), notes=(nasty,)))],
        trials={nasty: {nasty: [dataclasses.replace(t, operator=nasty, reason=nasty, config=Config({"A": nasty})) for t in samples.measured_trials()]}},
        comparisons=[dataclasses.replace(c, operator=nasty, shape=nasty, baseline=nasty, theirs=side) for c in samples.comparisons()],
        recorded=[(nasty, samples.H100, [])], sources={nasty: nasty}, notes=[nasty],
    )  # fmt: skip
    whole = render(data)
    assert "<img" not in whole
    assert "\x1b" not in whole
    assert all(tag != "img" for tag, _ in Page(whole).tags)


def test_the_page_needs_no_network(text, page):
    assert re.findall(r"https?:", text.replace('xmlns="http://www.w3.org/2000/svg"', "")) == []
    assert not {"script", "link", "iframe", "object", "img"} & {tag for tag, _ in page.tags}
    assert "url(" not in text
    assert "@import" not in text
    assert all(link.startswith("#") for link in page.links)


def test_links_lead_to_sections_and_ids_are_unique(page):
    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links} <= set(page.ids)


def test_tables_have_headers_with_a_scope(page):
    headers = [attributes for tag, attributes in page.tags if tag == "th"]
    assert headers
    assert {attributes["scope"] for attributes in headers} == {"col", "row"}


def test_the_page_is_for_phones_dark_rooms_and_paper(text):
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text
    assert "@media (prefers-color-scheme: dark)" in text
    assert "@media print" in text
    assert '<html lang="en">' in text


def test_the_faulty_line_is_marked_among_its_neighbours():
    shown = excerpt(samples.read_fault(), samples.sources())
    assert [number for number, _, _ in shown] == [6, 7, 8, 9, 10, 11, 12]
    assert [number for number, _, faulty in shown if faulty] == [10]
    assert shown[4][1].startswith("    k = tl.load(k_ptrs)")


def test_where_the_source_is_not_there_or_has_changed_the_finding_has_the_line():
    assert excerpt(samples.mismatch(), samples.sources()) == [(12, "tl.store(out_ptr + offs_n, acc)", True)]
    changed = {samples.read_fault().file: "\n" * 50}
    assert excerpt(samples.read_fault(), changed) == [(10, samples.read_fault().source, True)]
    assert excerpt(samples.read_fault(), {samples.read_fault().file: "one line"})[0][0] == 10
    assert excerpt(samples.warning(), samples.sources()) == []


def test_parts_that_are_empty_are_left_out():
    page = Page(render(ReportData("nothing", samples.HERE)))
    for absent in ("Timings", "Configurations", "Recorded results", "Cases"):
        assert absent not in page.text
    assert "Environment" in page.text


def test_many_configurations_are_folded_away(text):
    assert "configurations on h100</summary>" not in text
    many = dataclasses.replace(everything(), trials={"attention": {"h100": samples.measured_trials() * 6}})
    assert "All 30 configurations on h100" in render(many)


def test_the_file_is_written_with_its_folder(tmp_path, text):
    path = tmp_path / "deep" / "report.html"
    assert write(path, everything()) == path
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("place", ["file/report.html", "folder"])
def test_a_place_that_cannot_be_written(tmp_path, place):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreUnusable, match="cannot write the report") as caught:
        write(tmp_path / place, everything())
    assert "--html PATH" in caught.value.remedy


# ------------------------------------------------------------------------------------------------- plots


def drawn(text):
    """The parsed plot; every piece of it inside the view."""
    root = ElementTree.fromstring(text)
    _, _, width, height = map(float, root.get("viewBox").split())
    assert width == svg.WIDTH
    for piece in root.iter():
        for name, limit in (
            ("x", width),
            ("cx", width),
            ("x1", width),
            ("x2", width),
            ("y", height),
            ("cy", height),
            ("y1", height),
        ):
            if piece.get(name) is not None:
                assert -0.1 <= float(piece.get(name)) <= limit + 0.1, ElementTree.tostring(piece)
        if piece.tag == f"{SVG}rect":
            assert float(piece.get("x")) + float(piece.get("width")) <= width + 0.1
    assert root.get("role") == "img"
    assert "prefers-color-scheme:dark" in root.find(f"{SVG}style").text
    return root


def texts(root):
    return [piece.text or "".join(piece.itertext()) for piece in root.iter(f"{SVG}text")]


def of_class(root, name):
    return [piece for piece in root.iter() if name in (piece.get("class") or "").split()]


def test_a_tile_map():
    found = samples.disagreement()
    root = drawn(plots.tile_map(found))
    tips = [
        piece.find(f"{SVG}title").text for piece in root.iter(f"{SVG}rect") if piece.find(f"{SVG}title") is not None
    ]
    assert len(tips) == 800
    assert tips[5 * 25 + 3] == "rows 40 to 47, columns 24 to 31: 7 times the tolerance"
    assert "rows 56 to 63, columns 192 to 199: not finite, or infinitely far" in tips
    assert [len(of_class(root, f"t{level}")) - 1 for level in range(4)] == [
        771,
        8,
        7,
        14,
    ]  # one of each is the legend's
    assert {"0", "24", "192", "within tolerance", "up to 10 times"} <= set(texts(root))


@pytest.mark.parametrize(
    ("shape", "tile", "grid"), [((200,), (1, 8), (1, 25)), ((5, 3), (8, 8), (1, 1)), ((3000, 9), (128, 8), (24, 2))]
)
def test_tile_maps_of_odd_shapes(shape, tile, grid):
    found = dataclasses.replace(
        samples.disagreement(), shape=shape, tile_shape=tile, tile_grid=grid, tiles=(math.nan,) * math.prod(grid)
    )
    drawn(plots.tile_map(found))
    last = plots._tile_tip(found, grid[0] - 1, grid[1] - 1)
    assert f"{shape[-1] - 1}: not finite" in last


def test_an_output_without_tiles_has_no_map():
    assert plots.tile_map(dataclasses.replace(samples.disagreement(), kind="shape", tile_grid=(0, 0), tiles=())) == ""


def test_bars_of_trials():
    root = drawn(plots.trial_bars(samples.measured_trials()))
    assert {"measured", "predicted", "61.4 µs", "44.8 µs", "BLOCK_M=64 BLOCK_N=128 num_warps=4 (wrong)"} <= set(
        texts(root)
    )
    bars = of_class(root, "main")[1:]
    assert float(bars[1].get("width")) / float(bars[0].get("width")) == pytest.approx(66.0 / 61.4, rel=0.01)
    assert "measured" not in texts(drawn(plots.trial_bars(samples.predicted_trials())))


def test_a_bar_off_the_scale_is_cut_and_its_figure_fits():
    slow = dataclasses.replace(samples.predicted_trials()[0], predicted_seconds=0.186187)
    root = drawn(plots.trial_bars([*samples.predicted_trials(), slow]))
    cut, *_ = [e for e in root.iter() if e.text == "… 186,187 µs"]
    first, *_ = of_class(root, "hollow")[1:]
    assert float(cut.get("x")) + 8 * len(cut.text) < plots.WIDTH
    assert float(first.get("width")) > plots.WIDTH / 6, "the others are not flattened"


def test_bars_of_many_trials_and_of_none():
    many = drawn(plots.trial_bars(samples.measured_trials() * 20))
    assert "and 56 more" in texts(many)
    assert plots.trial_bars([samples.infeasible_trial()]) == ""
    assert plots.trial_bars([]) == ""


def test_a_distribution():
    first, second, *_ = samples.comparisons()
    root = drawn(plots.distribution([first.ours, first.theirs, second.theirs]))
    assert "ours: median 61.8 µs, 300 samples, 1 beyond the edge" in texts(root)
    assert len(of_class(root, "box")) == len(of_class(root, "median")) == 3
    assert 3 * 140 < len(of_class(root, "dot")) <= 3 * plots.MAX_DOTS
    assert any(said.endswith(" µs") for said in texts(root))
    assert plots.distribution([first.ours]) == plots.distribution([first.ours])


@pytest.mark.parametrize("values", [(1e-5,), (1e-5, 1e-5, 1e-5), (), (5e-9, 6e-9), (1.0, 90.0)])
def test_distributions_of_odd_samples(values):
    median = values[0] if values else 1e-5
    timing = dataclasses.replace(
        samples.comparisons()[0].ours,
        samples=values,
        count=max(len(values), 1),
        median=median,
        first_quartile=median,
        third_quartile=median,
    )
    drawn(plots.distribution([timing]))
    assert plots.distribution([dataclasses.replace(timing, count=0)]) == ""


def test_ratios_around_one():
    root = drawn(plots.ratio_intervals(samples.comparisons()))
    assert {
        "prefill, against torch sdpa",
        "1.214 FASTER",
        "0.871 SLOWER",
        "1.011 UNDECIDED",
        "1",
        "ours faster →",
    } <= set(texts(root))
    one = float(of_class(root, "axis")[0].get("x1"))
    dots = [float(piece.get("cx")) for piece in root.iter(f"{SVG}circle")]
    assert dots[0] > one
    assert dots[1] > dots[0]
    assert dots[2] < one
    assert plots.ratio_intervals([]) == ""


@pytest.mark.parametrize(
    ("ratio", "low", "high"), [(1.0, 1.0, 1.0), (1.2, 0.0, math.inf), (250.0, 240.0, 260.0), (0.004, 0.003, 0.005)]
)
def test_ratios_far_from_one_or_unknown(ratio, low, high):
    one = dataclasses.replace(samples.comparisons()[0], ratio=ratio, low=low, high=high, noise_floor=None)
    drawn(plots.ratio_intervals([one]))


def test_plots_escape_what_they_are_told():
    nasty = '"><script>alert(1)</script>'
    comparison = dataclasses.replace(samples.comparisons()[0], shape=nasty, baseline=nasty)
    timing = dataclasses.replace(comparison.ours, side=nasty)
    trial = dataclasses.replace(samples.measured_trials()[0], config=Config({nasty: nasty}))
    found = dataclasses.replace(samples.disagreement(), output=nasty)
    for plot in (
        plots.ratio_intervals([comparison]),
        plots.distribution([timing]),
        plots.trial_bars([trial]),
        plots.tile_map(found),
    ):
        assert "<script" not in plot
        drawn(plot)
