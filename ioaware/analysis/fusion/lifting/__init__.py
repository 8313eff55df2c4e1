"""Lift reductions to states that one pass can carry and merge."""
