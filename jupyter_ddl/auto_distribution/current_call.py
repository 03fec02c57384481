"""Holds which of Keras's methods is being distributed, and by what. Imports no framework. Runs on: every rank."""

from __future__ import annotations

from contextvars import ContextVar

# Keras's methods call each other, and a program's callbacks call them: a call inside another is this rank's own, except
# the validation of `fit`.
inside: ContextVar[str] = ContextVar("the method that is being distributed", default="")
# For the plan: what has asked for the distribution where that is not `--auto`.
asked_by: ContextVar[str] = ContextVar("what distributes the call", default="")
