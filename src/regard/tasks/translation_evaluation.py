"""The evaluation of a translator: BLEU and chrF of its translations of a test set."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from regard.config import Config, Positive
from regard.counts import counted
from regard.data.text import pairs
from regard.evaluation import bleu
from regard.tasks.evaluation import EvaluatedWith, Evaluation
from regard.tasks.texts import one_line


@dataclass(frozen=True, kw_only=True)
class TranslationSettings(Config):
    """How a test set is translated and scored."""

    renamed: ClassVar = {"penalty": "length_penalty"}
    beam: Positive = 4
    """Beam width; 1 is greedy search."""
    length_penalty: Annotated[float, Field(ge=0)] = 1.0
    """Above 1, longer translations are preferred; below it, shorter ones."""
    lowercase: bool = False
    """Compare in lower case, as in some papers."""


class EvaluatesTranslations:
    """A translator that can be evaluated."""

    translate: Any
    evaluated_with: ClassVar = EvaluatedWith("a translator", ("source", "reference"), TranslationSettings, bleu.compare)

    def evaluate(self, files: Mapping[str, Path], settings: TranslationSettings) -> Evaluation:
        """The scores of the best translation of each line of `source` against that line of `reference`."""
        tests = list(pairs(*self.evaluated_with.paths(files)))
        texts = [text for text, _ in tests]
        found = self.translate(texts, beam=settings.beam, length_penalty=settings.length_penalty, scores=False)
        best = [translations[0].text for translations in found]
        references = [text for _, text in tests]
        scores = bleu.score(best, references, lowercase=settings.lowercase)
        lines = [
            f"BLEU   {scores.bleu:5.1f}   {scores.bleu_signature}",
            f"chrF   {scores.chrf:5.1f}   {scores.chrf_signature}",
            f"exact  {scores.exact:5.1f}   of {counted(scores.sentences, 'sentence')}",
        ]
        predictions, translated = (
            [one_line(text) for text in best],
            bleu.Translated(best, references, settings.lowercase),
        )
        return Evaluation(dataclasses.asdict(scores), lines, predictions, examples=translated)
