"""The version, for those who need nothing else."""

__version__ = "0.1.0.dev0"
