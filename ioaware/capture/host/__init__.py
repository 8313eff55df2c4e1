"""Run a target's host code as it is, again and again, and see what it did."""
