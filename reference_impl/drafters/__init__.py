"""Drafters, one file each: what proposes tokens for the frozen target to verify."""
