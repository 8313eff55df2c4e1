"""Reports of the command line: what they show, gathered and drawn."""
