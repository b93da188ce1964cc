"""A small serving engine: paged cache, block manager with prefix cache, three scheduling policies."""

from kvlab.engine.blocks import BlockManager, OutOfBlocks
from kvlab.engine.clock import Clock, RealClock, StepClock
from kvlab.engine.engine import Engine, StepLog, Token
from kvlab.engine.pool import PagedPool, paged_gather
from kvlab.engine.request import Request, State
from kvlab.engine.scheduler import POLICIES, Plan, Scheduler, Work

__all__ = [
    "POLICIES",
    "BlockManager",
    "Clock",
    "Engine",
    "OutOfBlocks",
    "PagedPool",
    "Plan",
    "RealClock",
    "Request",
    "Scheduler",
    "State",
    "StepClock",
    "StepLog",
    "Token",
    "Work",
    "paged_gather",
]
