"""The verbs of the gate."""
