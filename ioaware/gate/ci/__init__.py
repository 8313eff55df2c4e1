"""What the gate leaves to CI: summary, annotations, properties, results."""
