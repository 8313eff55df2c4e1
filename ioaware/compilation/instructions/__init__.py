"""Instructions that a compiled kernel accesses memory by, and what they share."""
