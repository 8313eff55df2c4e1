"""Predict what is recorded: calls in steady state, and torch's own attention."""
