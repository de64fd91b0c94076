"""Sets of labels that interact in pairs."""
