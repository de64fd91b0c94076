"""Campaigns that look for crashes, hangs, wrong answers: ``python -m tests.fuzz``."""
