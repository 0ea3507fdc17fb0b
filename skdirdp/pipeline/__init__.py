"""Pipelines with one privacy budget, and a check of what their steps learn."""

from .check import Finding, check_pipeline, register_step
from .pipeline import PipelineReport, PrivatePipeline, make_private_pipeline

__all__ = [
    "Finding",
    "PipelineReport",
    "PrivatePipeline",
    "check_pipeline",
    "make_private_pipeline",
    "register_step",
]
