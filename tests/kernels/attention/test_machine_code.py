"""The analysis of machine code, on listings with known faults."""

from __future__ import annotations

from tests.support.machine_code import Code, undefined_reads


def test_a_register_written_on_one_path_only_is_found() -> None:
    lines = ["ULDC UR4, c[0x0][0x210]", "@!P0 BRA `(.L_x_1)", "UIADD3 UR8, UR4, 0x2, URZ", "IMAD.U32 R2, RZ, RZ, UR8", "EXIT"]
    listing = [f"/*{16 * i:04x}*/ {line} ;" for i, line in enumerate(lines)]
    whole = Code.parsed("\n".join([*listing[:4], ".L_x_1:", listing[4]]))
    assert undefined_reads(whole) == []
    skipped = Code.parsed("\n".join([*listing[:3], ".L_x_1:", *listing[3:]]))
    assert undefined_reads(skipped) == [(3, "IMAD.U32 R2, RZ, RZ, UR8")]
