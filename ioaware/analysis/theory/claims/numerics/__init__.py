"""Check identities in exact arithmetic, and rounding errors."""
