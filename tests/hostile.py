"""Model folders as attackers change them; run as a script, opens each one with bounded memory and time.

Prints one JSON object per folder, with its outcome: "works", or the type and message of an error.
"""

import json
import resource
import shutil
import signal
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file, save_file

from changed_folders import change_json
from completers import TEXTS as LINES
from completers import TOKENIZERS, gpt2
from helpers import random_model
from regard import folders, library
from regard.codecs.subword import SubwordTokenizer
from regard.interop import sentencepiece
from regard.interop.sentencepiece import SentencePiece
from regard.models.heads import ClassificationHead
from regard.models.transformer import TransformerConfig
from texts import TEXTS, TOKENIZER, bert

MEMORY = 500 * 2**20
SECONDS = 60  # for a folder, which takes a few milliseconds
HUGE, LONG = 10**9, "a" * 200_000
WIDE = {"width": 8, "heads": 2, "ff_width": 12, "encoder_layers": 1, "decoder_layers": 1}
PIECES = ["</s>", "<unk>", "<pad>", "▁", "▁the", "e", "t", "h", "d", "o", "g"]
HEAD = ClassificationHead(labels=("good", "bad"))
USES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "translator": ("translate", lambda opened: opened.translate(["the dog " * 20])),
    "marian": ("translate", lambda opened: opened.translate(["the dog " * 20])),
    "ct2": ("translate", lambda opened: opened.translate(["the dog " * 20])),
    "classifier": ("classify", lambda opened: opened.classify(["the dog " * 20])),
    "bert": ("classify", lambda opened: opened.classify(["the dog " * 20])),
    "completer": ("complete", lambda opened: opened.complete("the dog", tokens=3)),
    "gpt2": ("complete", lambda opened: opened.complete("the dog", tokens=3)),
}
"""By the name of a folder: a verb, and what it does."""
PREFIXES = {"marian": "hf:", "bert": "hf:", "gpt2": "hf:", "ct2": "ct2:"}


def make(place: Path) -> None:
    """Writes undamaged folders."""
    one = SubwordTokenizer.train("bpe", 300, TEXTS)
    config = TransformerConfig(vocab_size=one.vocab_size, **WIDE)
    codecs: dict[str, Any] = {"source": one, "target": one}
    library.save(place / "translator", config, library.tensors(random_model(config.build()).float()), codecs, "")
    classifier = bert(HEAD).float()
    library.save(place / "classifier", classifier.config, library.tensors(classifier), {"text": TOKENIZER}, "")
    completer = gpt2(TOKENIZERS["pairs"]).float()
    codecs = {"text": TOKENIZERS["pairs"]}
    library.save(place / "completer", completer.config, library.tensors(completer), codecs, LINES[0])
    library.convert(str(place / "classifier"), f"hf:{place / 'bert'}")
    library.convert(str(place / "completer"), f"hf:{place / 'gpt2'}")
    _make_marian(place / "marian")
    if find_spec("ctranslate2"):  # the only part that not everyone installs
        library.convert(str(place / "translator"), f"ct2:{place / 'ct2'}")


def _make_marian(folder: Path) -> None:
    """A folder of OPUS-MT."""
    from regard.interop import marian

    folder.mkdir()
    config = TransformerConfig(
        vocab_size=len(PIECES), **WIDE, positions="sinusoidal_split", norm_placement="post", output_bias=True
    )
    weights = library.tensors(random_model(config.build()).float())
    weights["output_bias"] = weights["output_bias"][None]
    save_file({name: weights[mine] for name, mine in marian.names(config).items()}, folder / "model.safetensors")
    settings = {**marian.write_config(config), "pad_token_id": 2, "eos_token_id": 0, "decoder_start_token_id": 3}
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(PIECES)}))
    model = SentencePiece({piece: -float(i) for i, piece in enumerate(PIECES[3:])}, b"")
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes(sentencepiece.write(model))


class Case(NamedTuple):
    """A change to a folder."""

    name: str
    base: str
    change: Callable[[Path], None]


CASES: list[Case] = []


def case(base: str, name: str, change: Callable[[Path], None]) -> None:
    CASES.append(Case(f"{base}: {name}", base, change))


def setting(base: str, name: str, *path: str, value: Any, file: str = "config.json") -> None:
    """A case with another value in a JSON file."""

    def change(folder: Path) -> None:
        data = json.loads((folder / file).read_text("utf-8"))
        table = data
        for key in path[:-1]:
            table = table[key]
        table[path[-1]] = value
        (folder / file).write_text(json.dumps(data), "utf-8")

    case(base, name, change)


def content(base: str, name: str, file: str, data: bytes) -> None:
    """A case with another file."""
    case(base, name, lambda folder: (folder / file).write_bytes(data) and None)  # type: ignore[func-returns-value]


def weights(base: str, name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """A case with another first tensor."""

    def changed(folder: Path) -> None:
        path = folder / "model.safetensors"
        tensors = {key: tensor.clone() for key, tensor in load_file(path).items()}
        first = min(tensors)
        save_file({**tensors, first: change(tensors[first])}, path)

    case(base, name, changed)


def large(folder: Path) -> None:
    """Finite weights with which the model computes NaN."""
    path = folder / "model.safetensors"
    save_file({key: torch.full_like(tensor, 1e38) for key, tensor in load_file(path).items()}, path)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


DEEP = b"[" * 200_000 + b"]" * 200_000
REPLACE = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 100}
PADDING = {
    "strategy": {"Fixed": HUGE}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
    "pad_token": "[PAD]",
}  # fmt: skip
REPEATED = {
    "type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}] * 100_000, "pair": [],
    "special_tokens": {},
}  # fmt: skip

for base in ("translator", "classifier", "completer", "marian", "bert", "gpt2", "ct2"):
    about = "regard.json" if base == "ct2" else "config.json"
    content(base, "a list as config", about, b"[1]")
    content(base, "null as config", about, b"null")
    content(base, "nested config", about, DEEP)
    content(base, "a nested key", about, b'{"model_type": ' + DEEP + b"}")
    content(base, "config is not UTF-8", about, b"\xff\xfe")
for base in ("translator", "classifier", "completer"):
    keys = {"translator": ("encoder_layers", "decoder_layers"), "classifier": ("layers",), "completer": ("layers",)}
    for key in (*keys[base], "width", "ff_width", "heads", "vocab_size", "context"):
        for value in (HUGE, 2**70, "x", []):
            setting(base, f"{key} = {value!r}", "model", key, value=value)
    for key in keys[base]:
        setting(base, f"{key} = 1000", "model", key, value=1000)
    for value in ([], None, nested(800)):
        for path in (("format",), ("task",), ("model",), ("codecs",), ("model", "kind")):
            setting(base, f"{'.'.join(path)} = {str(value)[:9]}", *path, value=value)
    for name, change in {
        "NaN": lambda x: x.fill_(torch.nan),
        "infinity": lambda x: x.fill_(torch.inf),
        "int8": lambda x: x.to(torch.int8),
        "bool": lambda x: x.bool(),
        "complex": lambda x: x.to(torch.complex64),
        "float64 beyond float32": lambda x: x.double().fill_(1e300),
        "another shape": lambda x: x[None].clone(),
    }.items():
        weights(base, f"weights of {name}", change)
    case(base, "very large weights", large)
    tokenizer = {"file": "tokenizer.json"}
    setting(
        base,
        "a normalizer that multiplies",
        "normalizer",
        value={"type": "Sequence", "normalizers": [REPLACE] * 6},
        **tokenizer,
    )
    setting(
        base, "a normalizer that prepends", "normalizer", value={"type": "Prepend", "prepend": "a" * 10**7}, **tokenizer
    )
    setting(base, "an unknown normalizer", "normalizer", value={"type": "X"}, **tokenizer)
    setting(
        base,
        "a precompiled normalizer",
        "normalizer",
        value={"type": "Precompiled", "precompiled_charsmap": "AAAA"},
        **tokenizer,
    )
    setting(
        base,
        "a damaged charsmap",
        "normalizer",
        value={"type": "Precompiled", "precompiled_charsmap": "BAAAAP////8A"},
        **tokenizer,
    )
    setting(
        base,
        "a charsmap that is a number",
        "normalizer",
        value={"type": "Precompiled", "precompiled_charsmap": 3},
        **tokenizer,
    )
    setting(base, "padding", "padding", value=PADDING, **tokenizer)
    setting(
        base,
        "truncation",
        "truncation",
        value={"max_length": 0, "strategy": "LongestFirst", "stride": 5, "direction": "Right"},
        **tokenizer,
    )
    setting(base, "a template that repeats", "post_processor", value=REPEATED, **tokenizer)
    setting(base, "no model", "model", value=None, **tokenizer)
    setting(base, "an empty vocabulary", "model", "vocab", value={}, **tokenizer)
    setting(base, "ids that are text", "model", "vocab", value={"a": "b"}, **tokenizer)
    setting(
        base,
        "a long token",
        "added_tokens",
        value=[
            {
                "id": 5,
                "content": LONG,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
        ],
        **tokenizer,
    )
    setting(base, "an added token that is a number", "added_tokens", value=[3], **tokenizer)
    setting(base, "long words", "model", "max_input_chars_per_word", value=HUGE, **tokenizer)
    setting(
        base,
        "a decoder that prepends",
        "decoder",
        value={"type": "Replace", "pattern": {"String": "a"}, "content": LONG},
        **tokenizer,
    )
    setting(
        base, "nested steps", "pre_tokenizer", value={"type": "Sequence", "pretokenizers": nested(100)}, **tokenizer
    )
    content(base, "nested tokenizer", "tokenizer.json", DEEP)
    content(base, "empty tokenizer", "tokenizer.json", b"")
    content(base, "a tokenizer that is not UTF-8", "tokenizer.json", b"\xff")
    content(base, "damaged weights", "model.safetensors", b"\xff" * 100)
for base in ("marian", "bert", "gpt2"):
    for key in (
        *("model_type", "architectures", "id2label", "num_labels", "hidden_act", "activation_function", "problem_type"),
        *("vocab_size", "decoder_vocab_size", "hidden_size", "d_model", "n_embd", "num_hidden_layers", "n_layer"),
        *("encoder_layers", "pad_token_id", "eos_token_id", "decoder_start_token_id", "layer_norm_eps", "n_positions"),
    ):
        for value in (HUGE, -1, "x", [1], {"0": {}}):
            setting(base, f"{key} = {value!r}", key, value=value)
    content(base, "an index that is a list", "model.safetensors.index.json", b'{"weight_map": ["a"]}')
    weights(base, "weights of NaN", lambda x: x.fill_(torch.nan))
    weights(base, "weights of int8", lambda x: x.to(torch.int8))
    weights(base, "a scalar", lambda x: x.flatten()[0].clone())
for value in ("[]", "3", '{"do_lower_case": "yes"}', '{"strip_accents": []}', '{"add_prefix_space": 3}'):
    content("bert", f"tokenizer_config.json {value}", "tokenizer_config.json", value.encode())
    content("gpt2", f"tokenizer_config.json {value}", "tokenizer_config.json", value.encode())
setting(
    "translator", "another vocabulary", "model", value=json.loads(TOKENIZER.to_json())["model"], file="tokenizer.json"
)
setting("translator", "fewer embeddings", "model", "vocab_size", value=10)
setting("ct2", "fewer embeddings", "model", "vocab_size", value=10, file="regard.json")
setting("bert", "num_labels without labels", "id2label", value=None)
case("bert", "a billion labels", lambda folder: change_json(folder / "config.json", id2label=None, num_labels=HUGE))
for name, data in {
    "ids that are text": '{"a": "b"}',
    "an id below zero": json.dumps({**{piece: i for i, piece in enumerate(PIECES)}, "<unk>": -1}),
    "no unknown token": '{"a": 1}',
    "a list": "[]",
    "a long piece": json.dumps({**{piece: i for i, piece in enumerate(PIECES)}, LONG: 10}),
}.items():
    content("marian", f"vocab.json: {name}", "vocab.json", data.encode())
for name, pieces, charsmap in (
    ("a long piece", {LONG: 0.0, "a": 1.0}, b""),
    ("a damaged charsmap", {"▁": 0.0, "a": 1.0}, b"\x04\0\0\0\xff\xff\xff\xff\0"),
    ("a charsmap that multiplies", {"▁": 0.0, "a": 1.0}, b"\x04\0\0\0\xff\xff\xff\xff" + LONG.encode() + b"\0"),
    ("a score that is NaN", {"▁": float("nan"), "a": 1.0}, b""),
):
    content("marian", f"source.spm: {name}", "source.spm", sentencepiece.write(SentencePiece(pieces, charsmap)))
content("marian", "source.spm: nonsense", "source.spm", b"\x0a" * 50)
content("ct2", "nonsense as weights", "model.bin", b"\xff" * 100)
content("ct2", "empty weights", "model.bin", b"")
content("ct2", "another vocabulary", "shared_vocabulary.json", b'["a", "b"]')
content("ct2", "a nested vocabulary", "shared_vocabulary.json", DEEP)
content("ct2", "its config", "config.json", b'{"unk_token": 3}')


def outcome(each: Case, folder: Path) -> str:
    """What happens when a changed folder is opened and used."""
    each.change(folder)
    if (folder / folders.HASHES).exists():  # an attacker writes the right hashes, too
        hashes = {path.name: folders._hash(path) for path in folder.iterdir() if path.name != folders.HASHES}
        (folder / folders.HASHES).write_text(json.dumps(hashes))
    verb, use = USES[each.base]
    try:
        found = use(library.load_for(verb, f"{PREFIXES.get(each.base, '')}{folder}"))
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:300]}"
    return f"prints {found}"[:300] if "nan" in repr(found) else "works"


def main(place: Path) -> None:
    make(place)
    torch.set_num_threads(1)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for each in CASES:
        if (place / each.base).exists():
            folder = place / "changed"
            shutil.copytree(place / each.base, folder)
            signal.alarm(SECONDS)  # ends the process
            sys.stdout.write(f"{json.dumps({'name': each.name, 'outcome': outcome(each, folder)})}\n")
            sys.stdout.flush()
            shutil.rmtree(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
