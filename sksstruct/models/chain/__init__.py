"""First-order chains: sequences of labels."""
