"""What is trained for: one task for each kind of data."""

from collections.abc import Callable

from regard.config import Config
from regard.data.completion import TextConfig
from regard.data.documents import DocumentsConfig
from regard.data.labelled import GlueConfig, TableConfig
from regard.data.sources import DatesConfig, ParallelConfig
from regard.data.tagged import ConlluConfig
from regard.recipe import Recipe
from regard.training.classification import ClassificationTask
from regard.training.language import LanguageTask
from regard.training.pretraining import PretrainingTask
from regard.training.report import Say
from regard.training.tagging import TaggingTask
from regard.training.task import Task
from regard.training.translation import TranslationTask

TASKS: dict[type[Config], Callable[[Recipe, Say], Task]] = {
    ParallelConfig: TranslationTask,
    DatesConfig: TranslationTask,
    DocumentsConfig: PretrainingTask,
    GlueConfig: ClassificationTask,
    TableConfig: ClassificationTask,
    ConlluConfig: TaggingTask,
    TextConfig: LanguageTask,
}


def task_of(recipe: Recipe, say: Say) -> Task:
    """What a recipe trains for, with its data read."""
    return TASKS[type(recipe.data)](recipe, say)
