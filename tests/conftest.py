import os
from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

# No deadline: the first example of a test includes torch's warm-up, and machines are shared. Examples are random on a
# developer's machine and fixed in CI.
settings.register_profile("regard", deadline=None, max_examples=50, print_blob=True, derandomize="CI" in os.environ)
settings.load_profile("regard")


@pytest.fixture(autouse=True, scope="session")
def _temporary_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ["REGARD_CACHE"] = str(tmp_path_factory.getbasetemp() / "cache")
    # torch creates its own cache folder in the first test that uses an optimizer
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(tmp_path_factory.getbasetemp() / "torch")


@pytest.fixture
def restore_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)
