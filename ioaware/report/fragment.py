"""Hold a section of a page that is made elsewhere, such as the picture of a walk."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fragment:
    """A `section` with its data inside, and what its page needs once.

    Styles and script serve all walks of a page.
    """

    html: str
    css: str
    script: str
