"""Oracles on chains."""
