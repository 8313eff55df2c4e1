"""Six GPUs from their vendors' documents, each number with its source.

Peaks are dense.
"""

from __future__ import annotations

from collections.abc import Mapping

from ioaware.errors import UsageError
from ioaware.machine.model import L2Model, Level, Link, Machine, Peak

KIB, MIB = 2**10, 2**20
GUIDE = "CUDA C++ Programming Guide, compute capabilities: technical specifications"
BANKS = "CUDA C++ Programming Guide: 32 banks of 32 bits per clock and SM"
NOT_PUBLISHED = "the vendor publishes none"

A100_PAPER = "NVIDIA A100 Tensor Core GPU Architecture whitepaper (2020)"
A100_SHEET = "NVIDIA A100 datasheet, A100 80GB SXM"
H100_PAPER = "NVIDIA H100 Tensor Core GPU Architecture whitepaper (2022)"
H100_SHEET = "NVIDIA H100 datasheet, H100 SXM, half of the rate with sparsity"
H200_SHEET = "NVIDIA H200 datasheet, H200 SXM, half of the rate with sparsity"
HOPPER_CLOCK = "1980 MHz: 66.9 TFLOP/s of fp32 = 132 SMs x 256 FLOP, H100 whitepaper"
B200_BRIEF = "NVIDIA Blackwell Architecture Technical Brief (2024), HGX B200 per GPU, half of the rate with sparsity"
DGX_B200 = "NVIDIA DGX B200 datasheet, an eighth"
B200_REVIEW = "Chips and Cheese, Nvidia's B200 (2025)"
ADA_PAPER = "NVIDIA Ada GPU Architecture whitepaper (2022)"
L40S_SHEET = "NVIDIA L40S datasheet"


TWO_HALVES = "A100 and H100 whitepapers: two partitions, each caches for the SMs connected to it"
DIRTY_ON_H200 = "kernels on an H200 that only store leave 29.6 MB of 62.9 dirty, those of the profiler among them"
SWEPT = "the fastest launch on record, a sweep by matmul programs: ioaware/recorded/l2"
CALIBRATED = "calibrated on an H200, 2026-11-23: ioaware/recorded/calibration"
NOT_CALIBRATED = "spreads are assumed: no calibration has narrowed them"
SETS_OF_16 = "16 lines a set: assumed, sweeps of an H200 change from hit to miss within a sixteenth"
H200_L2 = L2Model(2, 0.4703, 0.0613, 0.111, f"{TWO_HALVES}; {SETS_OF_16}; {CALIBRATED}", ways=16)
HALVES_AS_H200 = L2Model(2, 0.47, 0.2, 0.25, f"{TWO_HALVES}; {SETS_OF_16}; dirty share of an H200; {NOT_CALIBRATED}", ways=16)


RECORDED_COPIES = "copies of 1 GiB both ways between two H200s, ioaware/recorded/several_gpus/h200-nvlink.jsonl"


def _per_sm(shared_kib: int, l1_kib: int, clock_hz: float | None, clock_source: str) -> tuple[Level, ...]:
    """Return registers, shared memory and L1 of one SM.

    The array of the last two gives 128 bytes a clock.
    """
    bandwidth = None if clock_hz is None else 128 * clock_hz
    source = f"{BANKS}; {clock_source}"
    return (
        Level("registers", "sm", 256 * KIB, f"{GUIDE}: 64 K registers of 32 bits", None, NOT_PUBLISHED),
        Level("shared", "sm", shared_kib * KIB, f"{GUIDE}: maximum shared memory per SM", bandwidth, source),
        Level("l1", "sm", l1_kib * KIB, f"{GUIDE}: unified data cache", bandwidth, source),
    )


def _l2(mib: int, source: str, bandwidth: float | None = None, bandwidth_source: str = NOT_PUBLISHED) -> Level:
    return Level("l2", "gpu", mib * MIB, source, bandwidth, bandwidth_source)


def _hbm(capacity_bytes: int, capacity_source: str, bandwidth: float, bandwidth_source: str) -> Level:
    return Level("hbm", "gpu", capacity_bytes, capacity_source, bandwidth, bandwidth_source)


def _nvlink(both_ways: float, source: str, reached: float | None = None, reached_source: str = "not measured") -> Link:
    """Return NVLink of which the vendor gives both directions together.

    What the vendor gives is the bandwidth.
    """
    half = f"{source}, half of the {both_ways / 1e9:g} GB/s of both directions"
    return Link("NVLink", both_ways / 2, half, reached, reached_source)


def _peaks(source: str, **teraflops: float) -> Mapping[str, Peak]:
    return {dtype: Peak(rate * 1e12, source) for dtype, rate in teraflops.items()}


A100 = Machine(
    "A100",
    "NVIDIA A100-SXM4-80GB",
    compute_capability=80,
    sms=108,
    sms_source=A100_PAPER,
    levels=(
        *_per_sm(164, 192, 1.41e9, f"1410 MHz: {A100_PAPER}"),
        _l2(40, A100_PAPER, 5120 * 1.41e9, f"{A100_PAPER}: 5120 bytes per clock; 1410 MHz"),
        _hbm(80 * 10**9, A100_SHEET, 2.039e12, A100_SHEET),
    ),
    peaks=_peaks(A100_SHEET, float16=312, bfloat16=312, tfloat32=156, float32=19.5, int8=624),
    l2_model=HALVES_AS_H200,
    link=_nvlink(600e9, A100_SHEET),
)

H100 = Machine(
    "H100",
    "NVIDIA H100 80GB HBM3",
    compute_capability=90,
    sms=132,
    sms_source=H100_PAPER,
    levels=(
        *_per_sm(228, 256, 1.98e9, HOPPER_CLOCK),
        _l2(50, H100_PAPER),
        _hbm(80 * 10**9, H100_SHEET, 3.35e12, H100_SHEET),
    ),
    peaks=_peaks(
        f"{H100_PAPER}, SXM5, dense", float16=989.4, bfloat16=989.4, tfloat32=494.7, float32=66.9, float8=1978.9, int8=1978.9
    ),
    l2_model=HALVES_AS_H200,
    link=_nvlink(900e9, "NVIDIA H100 datasheet, H100 SXM"),
)

H200 = Machine(
    "H200",
    "NVIDIA H200",
    compute_capability=90,
    sms=132,
    sms_source="torch.cuda.get_device_properties on an H200",
    levels=(
        *_per_sm(228, 256, 1.98e9, HOPPER_CLOCK),
        _l2(60, "torch.cuda.get_device_properties on an H200", 14.27e12, SWEPT),
        _hbm(
            141 * 10**9,
            H200_SHEET,
            2 * 3201e6 * 6016 / 8,
            "NVML on an H200: 3201 MHz x 2 x 6016 bit / 8; the datasheet says 4.8 TB/s",
        ),
    ),
    peaks=_peaks(H200_SHEET, float16=989, bfloat16=989, tfloat32=494, float32=67, float8=1979, int8=1979),
    l2_model=H200_L2,
    link=_nvlink(900e9, "NVIDIA H200 datasheet, H200 SXM", 384e9, RECORDED_COPIES),
)

B200 = Machine(
    "B200",
    "NVIDIA B200",
    compute_capability=100,
    sms=148,
    sms_source=B200_REVIEW,
    levels=(
        *_per_sm(228, 256, None, "NVIDIA publishes no clock"),
        _l2(126, B200_REVIEW),
        _hbm(180 * 10**9, f"{DGX_B200} of 1440 GB", 8e12, f"{DGX_B200} of 64 TB/s"),
    ),
    peaks=_peaks(B200_BRIEF, float16=2250, bfloat16=2250, tfloat32=1100, float32=80, float8=4500, int8=4500, float4=9000),
    l2_model=HALVES_AS_H200,
    link=_nvlink(1800e9, "NVIDIA Blackwell Architecture Technical Brief (2024): fifth-generation NVLink, per GPU"),
)

L40S = Machine(
    "L40S",
    "NVIDIA L40S",
    compute_capability=89,
    sms=142,
    sms_source=f"{L40S_SHEET}: 18176 CUDA cores, 128 per SM",
    levels=(
        *_per_sm(100, 128, 2.52e9, "2520 MHz: 91.6 TFLOP/s of fp32 = 142 SMs x 256 FLOP, L40S datasheet"),
        _l2(96, f"{ADA_PAPER}: AD102, 98304 KB"),
        _hbm(48 * 10**9, L40S_SHEET, 864e9, L40S_SHEET),
    ),
    peaks=_peaks(L40S_SHEET, float16=362.05, bfloat16=362.05, tfloat32=183, float32=91.6, float8=733, int8=733),
)

RTX4090 = Machine(
    "RTX4090",
    "NVIDIA GeForce RTX 4090",
    compute_capability=89,
    sms=128,
    sms_source=ADA_PAPER,
    levels=(
        *_per_sm(100, 128, 2.52e9, f"2520 MHz: {ADA_PAPER}"),
        _l2(72, f"{ADA_PAPER}: 73728 KB"),
        _hbm(24 * 10**9, ADA_PAPER, 1.008e12, ADA_PAPER),
    ),
    peaks=_peaks(
        f"{ADA_PAPER}, accumulating in fp32",
        float16=165.2,
        bfloat16=165.2,
        tfloat32=82.6,
        float32=82.6,
        float8=330.3,
        int8=660.6,
    ),
)

PRESETS: Mapping[str, Machine] = {machine.name: machine for machine in (A100, H100, H200, B200, L40S, RTX4090)}
DEFAULT_MACHINE = H200


def find_machine(name: str) -> Machine:
    """Return the preset of that name or driver's name.

    Case, spaces and dashes are ignored.

    Raises `UsageError` that lists the names.
    """

    found = _named(name)
    if found is None:
        raise UsageError(f"there is no machine {name!r}", f"Machines: {', '.join(PRESETS)}, or a file that ends in .toml.")
    return found


def is_machine(name: str) -> bool:
    """Return whether a preset has that name."""
    return _named(name) is not None


def _named(name: str) -> Machine | None:
    def plain(text: str) -> str:
        return text.lower().translate({ord(letter): None for letter in " -_"})

    return next((one for one in PRESETS.values() if plain(name) in (plain(one.name), plain(one.device))), None)
