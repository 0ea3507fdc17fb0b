"""Experiments: the papers reproduced, peers measured, speed as ratios. See ``RESULTS.md``."""
