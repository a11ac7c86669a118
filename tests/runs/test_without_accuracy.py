"""Runs whose targets are numbers: what is kept and said of them has no accuracy."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from small_runs import STARTED, evaluation, losses, step
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tuitrain.config import with_changes
from tuitrain.events import Eval, RunEnded, State, encode
from tuitrain.paths import METRICS, TENSORBOARD
from tuitrain.recipes import load_recipe
from tuitrain.runs.export import exported_json
from tuitrain.runs.folder import RunFolder
from tuitrain.runs.logtail import line_of
from tuitrain.runs.record import RunRecord
from tuitrain.runs.report import show
from tuitrain.runs.store import MetricsWriter
from tuitrain.runs.stored import stored_run
from tuitrain.runs.tensorboard import TensorBoardWriter
from tuitrain.session.lines.client import decode
