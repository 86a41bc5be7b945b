"""Downloads of models from the Hugging Face Hub: weights, configs and vocabularies, never pickled files."""

from pathlib import Path

from huggingface_hub import snapshot_download

from regard.errors import RegardError
from regard.interop.files import HUB_NAME

PATTERNS = ["*.safetensors", "*.json", "*.txt", "*.spm", "*.bpe"]
"""The files that are downloaded: weights, configs, and the vocabularies of all tokenizers that are imported."""


def download(name: str) -> Path:
    """The folder of a model, downloaded into huggingface_hub's cache; a file that is there already is kept."""
    if not HUB_NAME.fullmatch(name):
        raise RegardError(f"'{name}' is no name of a model on the Hugging Face Hub; they look like OWNER/MODEL")
    try:
        # folders inside hold exports to other engines
        folder = Path(snapshot_download(name, allow_patterns=PATTERNS, ignore_patterns="*/*"))
    except (
        Exception
    ) as error:  # of the network, of the Hub or of the disk; their types depend on huggingface_hub's version
        reason = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
        raise RegardError(f"hf:{name} cannot be downloaded from the Hugging Face Hub: {reason}") from error
    if not any(folder.glob("*.safetensors")):
        raise RegardError(
            f"hf:{name} has no safetensors weights on the Hugging Face Hub, and pickled weights are not downloaded, "
            f"because they can run any code; find a copy in safetensors, or convert it where you trust it"
        )
    return folder
