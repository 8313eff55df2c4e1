"""Render the HTML page: one self-contained file, with a content security policy against everything external."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

from ioaware.errors import UsageError
from ioaware.report import style

_TEMPLATES = resources.files("ioaware.report") / "templates"


def plotly_bundle() -> str:
    """Return plotly.js of the plotly package.

    Raises `UsageError` where the package is missing.
    """
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise UsageError("the report needs the plotly package, which is not installed here", "pip install plotly") from error
    bundle: str = get_plotlyjs()
    return bundle.replace("\r\n", "\n")  # browsers read it so, and the policy's hash is of what they read


def render_page(values: Mapping[str, Any], graphs: Mapping[str, Any]) -> str:
    """Return the page of the template's values and plotly's graphs by id.

    Every text is escaped; a missing value is an error.
    """
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(template_text("report.html"))
    css, plotly, script = theme() + template_text("report.css"), plotly_bundle(), template_text("report.js")
    return template.render(
        {
            **values,
            "policy": policy(plotly, script),
            # This package's own files, plotly's, and JSON without a character that could leave its element.
            "css": Markup(css),  # noqa: S704
            "plotly": Markup(plotly),  # noqa: S704
            "script": Markup(script),  # noqa: S704
            "graphs": Markup(json_block(graphs)),  # noqa: S704
        }
    )


def template_text(name: str) -> str:
    """Return a file of the templates with the line ends that browsers see, of which the policy has the hash."""
    return (_TEMPLATES / name).read_text(encoding="utf-8").replace("\r\n", "\n")


def theme() -> str:
    """Return the colours as CSS custom properties for both themes, with stroke and fill classes."""

    def properties(which: int) -> str:
        return " ".join(f"--{name}: {pair[which]};" for name, pair in style.COLORS.items())

    classes = "".join(
        f".s-{name} {{ stroke: var(--{name}); fill: none; }} .f-{name} {{ fill: var(--{name}); }}\n" for name in style.COLORS
    )
    dashes = ".dash { stroke-dasharray: 6 3; } .dot { stroke-dasharray: 1.5 3; }\n"
    return (
        f":root {{ {properties(0)} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {properties(1)} }} }}\n{classes}{dashes}"
    )


def policy(*scripts: str) -> str:
    """Return the content security policy: only these scripts, by hash.

    No fetches; images only inside the file.

    Inline styles are allowed because plotly.js writes style attributes and elements. No external text becomes a style. Without
    sources for images or connections a style could send nothing.
    """
    allowed = {
        "default-src": "'none'",
        "script-src": " ".join(f"'{digest(text)}'" for text in scripts),
        "style-src": "'unsafe-inline'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{directive} {value}" for directive, value in allowed.items())


def digest(text: str) -> str:
    """Return the policy's name of an inline script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def json_block(value: object) -> str:
    """Return JSON for a <script>: no character in it can end the element or start a comment."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
