"""Write the workflows of a gated repository.

One for machines without a GPU, one for GPU runners.

Neither has a secret, a write permission or an expression inside a script. Actions are pinned by commit.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ioaware.gate.setup.host_params import Constant

CHECKOUT = "actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683 # v4.2.2"
PYTHON = "actions/setup-python@a26af69be951a213d495a4c3e4e4022e16d87065 # v5.6.0"
UPLOAD = "actions/upload-artifact@ea165f8d65b6e75b540449e92b4886f43607fa02 # v4.6.2"
STUDY = "traffic-study.toml"
STORE = "traffic.db"


@dataclass(frozen=True, slots=True)
class Job:
    """What the workflows of a repository need to know of it.

    `versions` are those that its snapshots were made with.
    """

    branch: str
    versions: dict[str, str]
    installs: tuple[str, ...] = ()
    """Further arguments of `pip install`, one command each, such as `-e .`."""
    runner: tuple[str, ...] = ("self-hosted", "gpu")
    benchmarks: bool = False


def cpu_workflow(job: Job) -> str:
    """Return the workflow that holds the snapshots on every pull request."""
    return f"""\
# The gate of memory traffic: formulas of the kernels' bytes, derived without a GPU. Needs no secret, so forks run it too.
# Versions are pinned because a snapshot holds for the Triton that made it. The repository variable PYTORCH_CPU_INDEX may name
# PyTorch's index of CPU wheels, which are smaller (see pytorch.org, "Get started").
name: traffic

on:
  pull_request:
  push:
    branches: [{_yaml(job.branch)}]

permissions: {{}}

concurrency:
  group: traffic-${{{{ github.ref }}}}
  cancel-in-progress: true

env:
  PIP_EXTRA_INDEX_URL: ${{{{ vars.PYTORCH_CPU_INDEX }}}}

jobs:
  traffic:
    runs-on: ubuntu-24.04
    timeout-minutes: 30
    permissions:
      contents: read
    steps:
{_checkout()}
{_install(job, "ioaware", "pytest")}
      - name: Hold every snapshot
        run: python -m pytest --traffic-only --traffic-complete --traffic-results=traffic.json --junitxml=traffic-junit.xml
      - name: Count the kernels without a test
        if: ${{{{ !cancelled() }}}}
        run: ioaware coverage
      - uses: {UPLOAD}
        if: ${{{{ !cancelled() }}}}
        with:
          name: traffic
          path: |
            traffic.json
            traffic-junit.xml
"""


def gpu_workflow(job: Job) -> str:
    """Return the workflow that measures on a schedule and on the label `gpu`."""
    runner = ", ".join(map(_yaml, job.runner))
    benchmarks = """
      - name: Time the benchmarks
        id: gpu-benchmarks
        if: ${{ !cancelled() }}
        run: python -m pytest --benchmark-only --benchmark-json=benchmark.json"""
    return f"""\
# What a GPU measures of the gated kernels: hardware counters beside the formulas, and a report. A pull request is measured when
# it gets the label `gpu`, which only those may set who may write to the repository; later commits need the label again.
name: traffic-gpu

on:
  schedule:
    - cron: "23 3 * * *"
  workflow_dispatch:
  pull_request:
    types: [labeled]

permissions: {{}}

concurrency:
  group: traffic-gpu-${{{{ github.ref }}}}
  cancel-in-progress: false

jobs:
  measure:
    if: github.event_name != 'pull_request' || github.event.label.name == 'gpu'
    runs-on: [{runner}]
    timeout-minutes: 120
    permissions:
      contents: read
    steps:
{_checkout()}
{_install(job, "ioaware[report]", "pytest")}
      - name: Say what this machine can measure
        run: ioaware doctor
      - name: Derive the formulas
        run: ioaware sweep {STUDY} --store {STORE} --source derive
      - name: Measure with hardware counters
        id: gpu-counters
        run: ioaware sweep {STUDY} --store {STORE} --source measure{benchmarks if job.benchmarks else ""}
      - name: Draw the report
        if: ${{{{ !cancelled() }}}}
        run: ioaware report --store {STORE} -o traffic-report
      - name: Draw the history
        if: ${{{{ !cancelled() }}}}
        run: ioaware history {STORE} -o traffic-history
      - uses: {UPLOAD}
        if: ${{{{ !cancelled() }}}}
        with:
          name: traffic-gpu
          path: |
            {STORE}
            traffic-report
            traffic-history{
        '''
            benchmark.json'''
        if job.benchmarks
        else ""
    }
"""


def lint_text(labels: Sequence[str]) -> str:
    """Return the configuration by which actionlint knows the labels of GPU runners."""
    lines = "".join(f"    - {_yaml(label)}\n" for label in labels)
    return f"# Labels of our own runners: actionlint reports any other as unknown.\nself-hosted-runner:\n  labels:\n{lines}"


def _checkout() -> str:
    return f"""\
      - uses: {CHECKOUT}
        with:
          persist-credentials: false
      - uses: {PYTHON}
        with:
          python-version: "3.12\""""


def _install(job: Job, package: str, *others: str) -> str:
    pinned = [f"{package}=={job.versions['ioaware']}", f"torch=={job.versions['torch']}", f"triton=={job.versions['triton']}"]
    commands = [" ".join(f'"{one}"' for one in pinned), *job.installs]
    commands[0] += "".join(f" {one}" for one in (*others, *(["pytest-benchmark"] if job.benchmarks and "[" in package else [])))
    lines = "\n".join(f"          python -m pip install {one}" for one in commands)
    return f"      - name: Install\n        run: |\n{lines}"


def _yaml(text: str) -> str:
    """Return text as a scalar of YAML: JSON's strings are YAML's."""
    return json.dumps(text)


def study_text(calls: Sequence[tuple[str, dict[str, Constant]]]) -> str:
    """Return a study of calls, each a target with its parameters.

    Derived, and measured where there is a GPU.
    """
    parts = ['title = "The gated kernels: formulas, and counters where there is a GPU"\n']
    for target, params in calls:
        values = ", ".join(f"{json.dumps(name)} = {json.dumps(value)}" for name, value in params.items())
        parts.append(f'[[grid]]\nsources = ["derive", "measure"]\ntargets = [{json.dumps(target)}]\nparams = {{ {values} }}\n')
    return "\n".join(parts)
