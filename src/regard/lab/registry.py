"""All experiments, one line each."""

from regard.lab.experiment import Experiment
from regard.lab.layers import Layers

EXPERIMENTS: tuple[type[Experiment], ...] = (Layers,)
