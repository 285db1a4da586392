"""The few SVG pieces the plots are made of. Text is escaped here, and nowhere else."""

from __future__ import annotations

from html import escape

from tilewright.report import words

WIDTH = 460
"""All plots are as wide, so that on a phone they shrink little, and two stand beside each other on a screen."""
PAD = 4
LINE = 16  # from one line of text to the next
_CHARACTER = 6.9  # a character's mean width at the font size below

# Colours are contrasted at 4.5 to 1 or more against both grounds; each is told in words or by place as well.
STYLE = """
.tw{--ink:#1b1f24;--soft:#57606a;--rule:#c8cfd6;--pale:#e6eaee;--main:#0b5cad;--good:#1a7f37;--bad:#b42318;--warn:#8a5a00;
--tile1:#f0b429;--tile2:#e8590c;--tile3:#a61e14;font:12.5px system-ui,sans-serif;fill:var(--ink);color:var(--ink)}
@media (prefers-color-scheme:dark){.tw{--ink:#e6edf3;--soft:#9da7b1;--rule:#444c56;--pale:#2b323a;--main:#6cb6ff;
--good:#56d364;--bad:#ff8a80;--warn:#e3b341;--tile1:#a37c00;--tile2:#e8700c;--tile3:#ff9e94}}
@media print{.tw{--ink:#1b1f24;--soft:#57606a;--rule:#c8cfd6;--pale:#e6eaee;--main:#0b5cad;--good:#1a7f37;--bad:#b42318;
--warn:#8a5a00;--tile1:#f0b429;--tile2:#e8590c;--tile3:#a61e14}}
.tw .soft{fill:var(--soft)}.tw .rule{stroke:var(--rule);stroke-width:1;fill:none}.tw .pale{fill:var(--pale)}
.tw .main{fill:var(--main)}.tw .hollow{fill:var(--pale);stroke:var(--main);stroke-width:1}
.tw .good{fill:var(--good)}.tw .bad{fill:var(--bad)}.tw .warn{fill:var(--warn)}.tw .ink{fill:var(--ink)}
.tw .axis{stroke:var(--ink);stroke-width:1.5}.tw .dot{fill:var(--main);fill-opacity:.45}
.tw .box{fill:var(--main);fill-opacity:.18;stroke:var(--main)}.tw .median{stroke:var(--main);stroke-width:2.5}
.tw .whisker{stroke-width:2}.tw line.good{stroke:var(--good)}.tw line.bad{stroke:var(--bad)}.tw line.warn{stroke:var(--warn)}
.tw line.soft{stroke:var(--soft)}.tw .t0{fill:var(--pale)}.tw .t1{fill:var(--tile1)}.tw .t2{fill:var(--tile2)}.tw .t3{fill:var(--tile3)}
""".replace("\n", "")


def document(height: float, title: str, body: list[str]) -> str:
    """An SVG of the common width. ``title`` is what a screen reader says in its place."""
    label = escape(words.clean(title), quote=True)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="tw" role="img" aria-label="{label}" width="{WIDTH}" '
        f'height="{height:.0f}" viewBox="0 0 {WIDTH} {height:.0f}" style="max-width:100%;height:auto">'
        f"<style>{STYLE}</style>{''.join(body)}</svg>"
    )


def text(x: float, y: float, said: str, style: str = "", anchor: str = "start", room: float | None = None) -> str:
    """Text, cut to ``room`` units; what is cut shows as a tooltip."""
    said = words.clean(said)
    shown = said
    if room is not None and len(said) * _CHARACTER > room:
        shown = said[: max(int(room / _CHARACTER) - 1, 1)].rstrip() + "…"
    tip = f"<title>{escape(said)}</title>" if shown != said else ""
    where = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}"{_class(style)}{where}>{tip}{escape(shown)}</text>'


def rect(x: float, y: float, width: float, height: float, style: str, tip: str = "") -> str:
    inside = f"<title>{escape(words.clean(tip))}</title>" if tip else ""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height:.1f}"{_class(style)}>{inside}</rect>'


def line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"{_class(style)}/>'


def dot(x: float, y: float, radius: float, style: str, tip: str = "") -> str:
    inside = f"<title>{escape(words.clean(tip))}</title>" if tip else ""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"{_class(style)}>{inside}</circle>'


def legend(x: float, y: float, entries: list[tuple[str, str]], width: float = WIDTH) -> tuple[list[str], float]:
    """Swatches with their meaning, in as many lines as they need; the pieces, and the height taken."""
    pieces: list[str] = []
    left, top = x, y
    for style, said in entries:
        need = 18 + len(said) * _CHARACTER + 14
        if left > x and left + need > width:
            left, top = x, top + LINE + 2
        pieces += [rect(left, top, 12, 12, style), text(left + 17, top + 10.5, said)]
        left += need
    return pieces, top + LINE - y


def _class(style: str) -> str:
    return f' class="{style}"' if style else ""
