"""Ragged data, checks, parallel work: below all floors."""
