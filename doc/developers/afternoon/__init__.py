"""Worked examples of the developers' pages: a package beside sksstruct."""
