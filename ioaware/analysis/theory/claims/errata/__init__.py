"""Check errors of the notes and papers, each with its correction."""
