"""Draws docs/performance.svg from the tables of docs/performance.md.

`python -m tests.bench.picture > docs/performance.svg`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from tests.support.markdown import DOCS, headings, rows

BESIDE = "Beside others"  # the heading of the page under which each group has a heading and a table of its own
OURS = "Toolgate"
WIDTH, LEFT, LONGEST = 760, 190, 440  # of the picture, of the names, and of the longest bar
LINE, BAR, CAPTION = 30, 20, 44  # heights
STYLE = """
  .ground { fill: #ffffff; stroke: #cbd2d9 } text { fill: #1f2933 } .few { fill: #52606d }
  .bar { fill: #9aa5b1 } .ours { fill: #2f6fb0 }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117; stroke: #3d444d } text { fill: #e6edf3 } .few { fill: #9aa5b1 }
    .bar { fill: #58626d } .ours { fill: #4a9eea }
  }
"""


@dataclass(frozen=True, slots=True)
class Bar:
    """A gateway, and how many calls a second one core answers."""

    name: str
    calls_per_s: int

    @property
    def label(self) -> str:
        return f"{self.calls_per_s:,}"


Groups = Mapping[str, list[Bar]]


def groups_of(page: str) -> Groups:
    """The tables beside others, by their headings; the first cell of a row is the name, the second the calls."""
    section = page.partition(f"\n## {BESIDE}\n")[2].partition("\n## ")[0]
    return {
        name: [Bar(row[0], int(row[1].replace(",", ""))) for row in rows(section, name)] for name in headings(section)
    }


def draw(groups: Groups) -> str:
    """The picture: for each group its name, and a bar for each gateway."""
    most = max(bar.calls_per_s for bars in groups.values() for bar in bars)
    y, parts = 62, []
    for name, bars in groups.items():
        parts.append(f'<text x="24" y="{y + 18}" font-weight="bold">{escape(name)}</text>')
        y += CAPTION - 12
        for bar in bars:
            parts += _bar(bar, y, max(2, round(bar.calls_per_s / most * LONGEST)))
            y += LINE
        y += 12
    height = y + 10
    title = "Calls a second that one core answers"
    spoken = "; ".join(
        f"{name}: " + ", ".join(f"{bar.name} {bar.label}" for bar in bars) for name, bars in groups.items()
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
            'font-family="Helvetica, Arial, sans-serif" font-size="14" role="img" aria-labelledby="title">',
            f'<title id="title">{title}. {escape(spoken)}</title>',
            f"<style>{STYLE}</style>",
            f'<rect class="ground" x="1" y="1" width="{WIDTH - 2}" height="{height - 2}" rx="10"/>',
            f'<text x="24" y="38" font-size="18" font-weight="bold">{title}</text>',
            f'<text class="few" x="{WIDTH - 24}" y="38" text-anchor="end">more is better</text>',
            *parts,
            "</svg>\n",
        ]
    )


def _bar(bar: Bar, y: int, length: int) -> list[str]:
    kind, weight = ("ours", "bold") if bar.name == OURS else ("bar", "normal")
    return [
        f'<text x="{LEFT - 12}" y="{y + 15}" text-anchor="end" font-weight="{weight}">{escape(bar.name)}</text>',
        f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{length}" height="{BAR}" rx="3"/>',
        f'<text x="{LEFT + length + 8}" y="{y + 15}" font-weight="{weight}">{bar.label}</text>',
    ]


if __name__ == "__main__":
    print(draw(groups_of((DOCS / "performance.md").read_text("utf-8"))), end="")
