"""Fixtures of the display tests."""

from tests.report.conftest import claim_of, result_of

__all__ = ["claim_of", "result_of"]
