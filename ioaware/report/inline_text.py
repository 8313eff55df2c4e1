"""Hold text that a page has inside.

This is templates, colours of both themes, JSON, and hashes for its policy.
"""

from __future__ import annotations

import base64
import hashlib
import json
from importlib import resources

from ioaware.report import style

_TEMPLATES = resources.files("ioaware.report") / "templates"


def template_text(name: str) -> str:
    """Return a file of the templates with the line ends that browsers see.

    The policy has the hash of this text.
    """
    return (_TEMPLATES / name).read_text(encoding="utf-8").replace("\r\n", "\n")


def theme() -> str:
    """Return the colours as CSS custom properties for both themes.

    Stroke and fill classes are included.
    """

    def properties(which: int) -> str:
        return " ".join(f"--{name}: {pair[which]};" for name, pair in style.COLORS.items())

    classes = "".join(
        f".s-{name} {{ stroke: var(--{name}); fill: none; }} .f-{name} {{ fill: var(--{name}); }}\n" for name in style.COLORS
    )
    dashes = ".dash { stroke-dasharray: 6 3; } .dashdot { stroke-dasharray: 9 3 2 3; } .dot { stroke-dasharray: 1.5 3; }\n"
    dark = f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {properties(1)} }} }}\n"
    return f":root {{ {properties(0)} }}\n{dark}{classes}{dashes}"


def digest(text: str) -> str:
    """Return the policy's name of an inline script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def json_block(value: object) -> str:
    """Return JSON for a <script>, safe inside it.

    No character in it can end the element or start a comment.
    """
    text = json.dumps(value, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
