"""Audits: lower bounds on the true epsilon of an estimator or a function, from its outputs."""

from .auditing import AuditResult, audit, audit_one_run, audit_scores
from .cases import Case, case_names, predefined_case

__all__ = [
    "AuditResult",
    "Case",
    "audit",
    "audit_one_run",
    "audit_scores",
    "case_names",
    "predefined_case",
]
