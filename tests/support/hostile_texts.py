"""Fifty payloads that do harm in HTML, Markdown, a terminal, CSV or annotations.

A page's structure is there for comparison.
"""

from __future__ import annotations

from html.parser import HTMLParser

PAYLOADS = (
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "</SCRIPT ><script>alert(1)</script>",
    "<!--<script>",
    "--><script>alert(1)</script>",
    "]]><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "::error file=x,line=1::owned",
    "<iframe src=javascript:alert(1)>",
    "+1+cmd|' /C calc'!A0",
    "<a href='javascript:alert(1)'>x</a>",
    "<a href='https://evil.example'>x</a>",
    "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "<img src='https://evil.example/x.png'>",
    "\t-1+cmd|' /C calc'!A0",
    "<style>*{background:url(//evil.example)}</style>",
    "</style><script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</textarea><script>alert(1)</script>",
    "<meta http-equiv=refresh content=0;url=//evil.example>",
    "<base href=//evil.example>",
    "<form action=//evil.example><button>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
    '<noscript><p title="</noscript><img src=x onerror=alert(1)>">',
    "{{7*7}}",
    "x\r\n::warning::owned",
    "{% for x in ().__class__.__base__.__subclasses__() %}{% endfor %}",
    "${7*7}",
    "%0A::error::owned",
    "<%= 7*7 %>",
    "%{text}<script>",
    "%{customdata[0]}",
    "<b>bold</b><i>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#x3C;script&#x3E;",
    "\\u003cscript\\u003e",
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "$x^2$ \\frac{1}{0}",
    "=cmd|'/C calc'!A0",
    "| pipe ` backtick | [x](javascript:alert(1))",
    "line\none\r\ntwo",
    "\x1b[31mred\x1b[0m\x07",
    "user\u202egnp.exe",
    "zero\u200bwidth\u2066iso\u2069",
    "\x00null\ud800",
    "汉字 עברית 🔥",
    "A" * 1_000_000,
)
SPECIAL = set("<>\"'\x1b\u202e\u200b\x00")
RAW_NEVER = [payload for payload in PAYLOADS if set(payload) & SPECIAL and "cmd|" not in payload]
"""Payloads that no page may contain as they are.

A spreadsheet's formula is harmless there: JSON has its apostrophe unescaped.
"""


class Structure(HTMLParser):
    """The tags and attribute names of a page, and its links."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, tuple[str, ...]]] = []
        self.links: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, tuple(name for name, _ in attrs)))
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
