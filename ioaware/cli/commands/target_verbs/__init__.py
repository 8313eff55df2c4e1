"""The verbs that take a target."""
