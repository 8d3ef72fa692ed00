"""Graph learning on privately released data."""

__version__ = "0.1.0"
