"""The command line, one file for each verb. Verbs import torch only when they run, so that `--help` is quick."""
