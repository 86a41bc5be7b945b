"""Small models of every kind that encodes texts."""

from pathlib import Path

import pytest

from helpers import randomise
from regard import library
from regard.codecs.words import Words
from regard.models.heads import ClassificationHead, NoHead, PretrainingHead, RegressionHead, TaggingHead
from regard.models.rnn_tagger import RnnTaggerConfig
from texts import TEXTS, TOKENIZER, bert

HEADS = {
    "plain": NoHead(),
    "guesser": PretrainingHead(),
    "sst2": ClassificationHead(labels=("negative", "positive")),
    "stsb": RegressionHead(),
    "pos": TaggingHead(labels=("NOUN", "VERB")),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for name, head in HEADS.items():
        model = bert(head).float()
        library.save(folder / name, model.config, library.tensors(model), {"text": TOKENIZER}, "")
    words = Words.learn([text.split() for text in TEXTS], min_count=1)
    tagger = randomise(RnnTaggerConfig(sizes=words.sizes()["sizes"], labels=("NOUN", "VERB"), width=8).build()).float()
    library.save(folder / "rnn_tagger", tagger.config, library.tensors(tagger), {"text": words}, "")
    return folder
