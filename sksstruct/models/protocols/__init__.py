"""Protocols that a solver can request from a bound model."""
