"""Simulate registers that are spilled to local memory."""
