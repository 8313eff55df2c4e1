"""`predict --gpus`: text and JSON have the same numbers.

Methods that cannot run say why, and bad requests are usage errors.
"""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace

import pytest
from rich.console import Console

from ioaware.cli.main import run
from ioaware.cli.options import Settings
from ioaware.cli.tables.rank_tables import ranks_data, ranks_text
from ioaware.derivation.derived import Derived
from ioaware.derivation.exchanges import RankExchange
from ioaware.display.units import bytes_text
from ioaware.result import Launch, Traffic

LONG = ("gqa", "-p", "heads=32", "-p", "kv_heads=8", "-p", "seq_len=131072", "-p", "head_dim=128")


def predict(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert run(["predict", *arguments], Settings()) == code
    captured = capsys.readouterr()
    return captured.err if code else captured.out


def test_the_table_has_the_numbers_of_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    several = json.loads(predict(capsys, *LONG, "--gpus", "8", "--json"))["over_gpus"]
    text = predict(capsys, *LONG, "--gpus", "8")
    assert several["machine"] == "H200"
    assert several["link_bytes_per_s"] == 384e9
    assert {plan["method"] for plan in several["plans"]} == {"ring", "all_gather", "all_to_all", "square"}
    for plan in several["plans"]:
        assert bytes_text(plan["received_bytes"]) in text
        assert plan["binds"] in text
    assert several["impossible"] == {}


def test_beyond_one_host_the_network_has_its_share(capsys: pytest.CaptureFixture[str]) -> None:
    """NVLink brings 7 of 15 parts, in a host of 8, and the network 8.

    The network is slower, and binds.
    """
    arguments = ("flash2", "-p", "heads=32", "-p", "seq_len=32768", "-p", "head_dim=128", "--gpus")
    one, two = (json.loads(predict(capsys, *arguments, gpus, "--json"))["over_gpus"]["plans"] for gpus in ("8", "16"))
    assert all({"network_bytes", "network_ns"}.isdisjoint(plan) for plan in one)
    gathered = next(plan for plan in two if (plan["method"], plan["direction"]) == ("all_gather", "forward"))
    assert gathered["network_bytes"] == gathered["received_bytes"] * 8 // 15
    assert gathered["network_ns"] == pytest.approx(gathered["network_bytes"] / 50)
    assert gathered["link_ns"] == pytest.approx(gathered["received_bytes"] * 7 / 15 / 384)
    assert gathered["binds"] == "network"
    text = predict(capsys, *arguments, "16")
    assert re.search(r"from hosts .* NVLink time +network time", text)
    assert "assumes hosts of 8 GPUs, each of which receives 50 GB/s from other hosts" in text
    assert "network" not in predict(capsys, *arguments, "8")


def test_what_is_unknown_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("flash2", "-p", "heads=3", "-p", "seq_len=1001", "-p", "causal=true", "--gpus", "2", "--machine", "L40S")
    several = json.loads(predict(capsys, *arguments, "--json"))["over_gpus"]
    assert several["link_bytes_per_s"] is None
    assert several["impossible"] == {"all_to_all": "3 heads and 3 key heads cannot be divided among 2 GPUs"}
    assert all({"link_ns", "binds"}.isdisjoint(plan) for plan in several["plans"])
    text = predict(capsys, *arguments)
    assert "all_to_all cannot run" in text
    assert "L40S, NVLink: no bandwidth is known" in text


def test_advice_names_the_method_that_moves_the_fewest_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["advise", *LONG, "-p", "causal=true", "--gpus", "8", "--json"], Settings()) == 0
    several = json.loads(capsys.readouterr().out)
    assert several["fewest_bytes"] == "all_to_all"
    assert run(["advise", *LONG, "--gpus", "3"], Settings()) == 0
    text = capsys.readouterr().out
    assert "ring moves the fewest bytes: a GPU receives 1.432 GB in both passes\n" in text
    assert "all_to_all cannot run: 32 heads and 8 key heads cannot be divided among 3 GPUs" in text
    assert run(["advise", "standard", "--gpus", "2"], Settings()) == 2
    assert "advise --gpus does not know 'standard'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("standard", "--gpus", "2"), "predict --gpus does not know 'standard'"),
        (("flash2", "-p", "seq_len=7", "--gpus", "8"), "predict --gpus 8: there are 7 queries and 7 keys"),
        (("flash2", "--gpus", "1"), "--gpus"),
    ],
)
def test_a_bad_request_is_a_usage_error(arguments: tuple[str, ...], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert error in predict(capsys, *arguments, code=2)


def test_hbm_and_compulsory_bytes_of_a_gpu_are_shown_or_unknown() -> None:
    known = Derived(
        "derive",
        "t",
        params={},
        requested=Traffic(12_000, 5_000),
        compulsory=Traffic(4_000, 1_000),
        exact=True,
        launches=(Launch("k"),),
        kernels=(None,),
        cold_cache=(Traffic(6_000, 2_000),),
    )
    unknown = replace(known, compulsory=None, cold_cache=(None,), notes=("compulsory is unknown: of torch",))
    ranks = [RankExchange(0), RankExchange(1)]
    first, second = (one["kernels"] for one in ranks_data("t", {}, ranks, [known, unknown])["over_gpus"]["ranks"])
    assert first["compulsory"]["write_bytes"] == 1_000
    assert first["hbm"] == {"read_bytes": 6_000, "write_bytes": 2_000}
    assert "hbm" not in second
    out = io.StringIO()
    console = Console(file=out, width=200)
    console.print(*ranks_text("t", {}, ranks, [known, unknown]), sep="\n")
    shown = out.getvalue()
    assert re.search(r"^0 .* 12,000 +5,000 +6,000 +2,000 +5,000 *$", shown, re.MULTILINE)
    assert re.search(r"^1 .* 12,000 +5,000 +unknown +unknown +unknown *$", shown, re.MULTILINE)
    assert "compulsory is unknown: of torch" in shown
