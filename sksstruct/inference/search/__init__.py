"""Best-first search and enumeration."""
