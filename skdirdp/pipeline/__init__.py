"""Pipelines with one budget, and the check of what their steps learn."""

from .check import Finding, check_pipeline, register_step
from .pipeline import PrivatePipeline, make_private_pipeline
from .report import PipelineReport

__all__ = [
    "Finding",
    "PipelineReport",
    "PrivatePipeline",
    "check_pipeline",
    "make_private_pipeline",
    "register_step",
]
