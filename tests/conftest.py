import os
from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

# No deadline: the first example of a test pays for torch's warm-up, and machines are shared. Where a change is made,
# new examples every time; where it is judged, the same ones.
settings.register_profile("regard", deadline=None, max_examples=50, print_blob=True, derandomize="CI" in os.environ)
settings.load_profile("regard")


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ["REGARD_CACHE"] = str(tmp_path_factory.getbasetemp() / "cache")
    # torch makes a folder of its own, in whatever test first asks for an optimizer
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(tmp_path_factory.getbasetemp() / "torch")


@pytest.fixture
def threads_as_before() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _same_numbers_every_time() -> None:
    torch.manual_seed(0)
