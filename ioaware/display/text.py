"""Make untrusted text printable.

Names of kernels, hosts and files, notes and errors are such text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

MAX_LENGTH = 300
_INVISIBLE = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})
"""Unicode categories of characters that move, hide or reorder text.

These are controls, escapes and right-to-left marks.
"""


def clean(value: object, limit: int = MAX_LENGTH) -> str:
    r"""Return `value` as text of at most `limit` characters.

    Invisible characters are spelt out (`\x1b`, `\u202e`).

    It is not escaped for HTML: the templates escape every text once.
    """
    text = str(value)
    short = text[:limit]
    visible = short if short.isprintable() else "".join(map(_visible, short))
    return visible if len(text) <= limit else f"{visible}… ({len(text):,} characters)"


def _visible(character: str) -> str:
    return _spelt(character) if unicodedata.category(character) in _INVISIBLE else character


def shorten(text: str, limit: int) -> str:
    """Return text of at most about `limit` characters, without its middle.

    What remains is its beginning, the number of omitted characters, and its end.
    """
    if len(text) <= limit:
        return text
    half = limit // 2
    without = f"{text[:half]}... ({len(text) - 2 * half:,} characters left out) ...{text[-half:]}"
    return min(without, text, key=len)


def params_text(params: Mapping[str, object]) -> str:
    """Return `seq_len=512, head_dim=64, ...` of the parameters that are set."""
    return ", ".join(f"{clean(name, 60)}={clean(value, 60)}" for name, value in params.items() if value is not None)


def without_folders(target: str) -> str:
    """Return `file.py:function` of a target given with the folders of its file."""
    file, colon, function = target.rpartition(":")
    return file.replace("\\", "/").rpartition("/")[2] + colon + function


def claim_title(name: str) -> str:
    """Return `theorem2` as `Theorem 2`, `proposition3` as `Proposition 3`.

    Any other name unchanged.
    """
    found = re.fullmatch(r"(theorem|proposition)(\d+)", name)
    return f"{found[1].capitalize()} {found[2]}" if found else clean(name, 60)


def _spelt(character: str) -> str:
    code = ord(character)
    if character in "\n\t":
        return " "
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
