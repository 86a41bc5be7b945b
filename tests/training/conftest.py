from pathlib import Path

import pytest

from runs import finish


@pytest.fixture(scope="session")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was never interrupted."""
    run = tmp_path_factory.mktemp("runs") / "uninterrupted"
    finish(run)
    return run
