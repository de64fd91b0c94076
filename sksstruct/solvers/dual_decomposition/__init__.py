"""Training through factorwise oracles."""
