import gzip
from pathlib import Path

import pytest

from regard.data.glue import TASKS, find, read
from regard.data.tables import Example

# A line or two of each file as GLUE gives it (less some columns), with bars for tabs; what is read; and its test file.
OFFICIAL = {
    "cola": (
        "gj04|1||Our friends won't buy this.\nc-05|0|*|They drank the pub.",
        [("Our friends won't buy this.", None, "acceptable"), ("They drank the pub.", None, "unacceptable")],
        "index|sentence\n0|They drank the pub.",
    ),
    "sst2": (
        "sentence|label\na charming journey |1\nbleak and desperate |0",
        [("a charming journey ", None, "positive"), ("bleak and desperate ", None, "negative")],
        "index|sentence\n0|bleak and desperate ",
    ),
    "mrpc": (
        '\ufeffQuality|#1 ID|#2 ID|#1 String|#2 String\n1|702876|702977|He "said so .|So he said .\n0|1|2|A .|B .',
        [('He "said so .', "So he said .", "equivalent"), ("A .", "B .", "not_equivalent")],
        "index|#1 ID|#2 ID|#1 String|#2 String\n0|1|2|A .|B .",
    ),
    "qqp": (
        "id|qid1|qid2|question1|question2|is_duplicate\n1|2|3|How?|In what way?|1\n2|3|4|Who?|Why?|0",
        [("How?", "In what way?", "duplicate"), ("Who?", "Why?", "not_duplicate")],
        "id|question1|question2\n0|Who?|Why?",
    ),
    "stsb": (
        "index|year|sentence1|sentence2|score\n0|2012|A plane.|A plane!|5.000\n1|2012|A plane.|A cat.|0.25",
        [("A plane.", "A plane!", "5.000"), ("A plane.", "A cat.", "0.25")],
        "index|year|sentence1|sentence2\n0|2012|A plane.|A cat.",
    ),
    "mnli": (
        "sentence1|sentence2|label1|gold_label\nHe ran.|He moved.|x|entailment\nHe ran.|He sat.|x|contradiction",
        [("He ran.", "He moved.", "entailment"), ("He ran.", "He sat.", "contradiction")],
        "index|sentence1|sentence2\n0|He ran.|He sat.",
    ),
    "qnli": (
        "index|question|sentence|label\n0|Who?|Ann did.|entailment\n1|When?|She did.|not_entailment",
        [("Who?", "Ann did.", "entailment"), ("When?", "She did.", "not_entailment")],
        "index|question|sentence\n0|When?|She did.",
    ),
    "rte": (
        "index|sentence1|sentence2|label\n0|It rains.|It is wet.|entailment\n1|It rains.|It is dry.|not_entailment",
        [("It rains.", "It is wet.", "entailment"), ("It rains.", "It is dry.", "not_entailment")],
        "index|sentence1|sentence2\n0|It rains.|It is dry.",
    ),
    "wnli": (
        "index|sentence1|sentence2|label\n0|I hit it.|It was hit.|1\n1|I hit it.|I was hit.|0",
        [("I hit it.", "It was hit.", "entailment"), ("I hit it.", "I was hit.", "not_entailment")],
        "index|sentence1|sentence2\n0|I hit it.|I was hit.",
    ),
    "ax": (
        "Logic|Domain|Premise|Hypothesis|Label\n|News|The cat sat.|The cat did not sit.|contradiction",
        [("The cat sat.", "The cat did not sit.", "contradiction")],
        "index|sentence1|sentence2\n0|The cat sat.|The cat did not sit.",
    ),
}


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.replace("|", "\t").encode() + b"\n"
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("name", OFFICIAL)
def test_each_task_is_read_as_glue_gives_it(tmp_path: Path, name) -> None:
    labelled, expected, test = OFFICIAL[name]
    assert list(read(TASKS[name], written(tmp_path / "dev.tsv", labelled))) == [Example(*row) for row in expected]
    first, second, _ = expected[-1]
    unlabelled = read(TASKS[name], written(tmp_path / "test.tsv", test), labelled=False)
    assert list(unlabelled) == [Example(first, second, None)]


@pytest.mark.parametrize("name", TASKS)
def test_each_task_is_read_from_a_plain_table(tmp_path: Path, name) -> None:
    task = TASKS[name]
    one = len(task.texts) == 1
    header = "sentence|label" if one else "sentence1|sentence2|label"
    given = task.spellings or task.labels or ["3.8"]
    texts = "one" if one else "one|other"
    path = written(tmp_path / "dev.tsv.gz", "\n".join([header, *(f"{texts}|{label}" for label in given)]))
    second = None if one else "other"
    assert list(read(task, path)) == [Example("one", second, label) for label in task.labels or ["3.8"]]
    assert list(read(task, path, labelled=False)) == [Example("one", second, None)] * len(given)


def test_an_unknown_label_is_named_with_file_line_and_those_known(tmp_path: Path) -> None:
    path = written(tmp_path / "dev.tsv", "sentence|label\nfine|1\nfine|2")
    with pytest.raises(ValueError, match=r"dev\.tsv, line 3: unknown label '2'; sst2 knows 0, 1"):
        list(read(TASKS["sst2"], path))
    # a file without a header begins with an example
    path = written(tmp_path / "dev.tsv", "gj04|good||Fine.")
    with pytest.raises(ValueError, match=r"line 1: unknown label 'good'"):
        list(read(TASKS["cola"], path))


@pytest.mark.parametrize("score", ["5.1", "-1", "nan", "five"])
def test_a_similarity_off_the_scale_is_named(tmp_path: Path, score) -> None:
    path = written(tmp_path / "dev.tsv", f"sentence1|sentence2|label\na|b|5\na|b|{score}")
    with pytest.raises(ValueError, match=rf"dev\.tsv, line 3: '{score}' is no number from 0 to 5"):
        list(read(TASKS["stsb"], path))


def test_a_missing_column_lists_those_there_are(tmp_path: Path) -> None:
    path = written(tmp_path / "dev.tsv", OFFICIAL["mnli"][2])
    with pytest.raises(ValueError, match=r"no column 'label'; there are 'index', 'sentence1', 'sentence2'"):
        list(read(TASKS["mnli"], path))


TORN = "id|qid1|qid2|question1|question2|is_duplicate\n1|2|3|How?|In what\nway?|1\n2|3|4|Who?|Why?|0"


def test_torn_lines_of_qqp_are_left_out_and_counted(tmp_path: Path) -> None:
    path = written(tmp_path / "train.tsv", TORN)
    said: list[str] = []
    assert list(read(TASKS["qqp"], path, warn=said.append)) == [Example("Who?", "Why?", "not_duplicate")]
    assert said == [f"{path}: 2 lines with too few columns are left out, the first of them line 2"]
    with pytest.warns(UserWarning, match="2 lines with too few columns"):
        list(read(TASKS["qqp"], path))


def test_torn_lines_are_errors_elsewhere(tmp_path: Path) -> None:
    # in a test set, each line is answered in its place
    with pytest.raises(ValueError, match="line 2: 5 columns instead of 6"):
        list(read(TASKS["qqp"], written(tmp_path / "test.tsv", TORN), labelled=False))
    with pytest.raises(ValueError, match="line 2: 7 columns instead of 6"):
        list(read(TASKS["qqp"], written(tmp_path / "train.tsv", f"{TORN.splitlines()[0]}\n1|2|3|How?|So?|1|1")))
    with pytest.raises(ValueError, match="line 2: 2 columns instead of 3"):
        list(read(TASKS["rte"], written(tmp_path / "train.tsv", "sentence1|sentence2|label\nIt rains.|It")))


def test_files_are_found_plain_or_gzipped(tmp_path: Path) -> None:
    zipped = written(tmp_path / "SST-2" / "dev.tsv.gz", "")
    assert find(tmp_path, TASKS["sst2"], "dev") == zipped
    plain = written(tmp_path / "SST-2" / "dev.tsv", "")
    assert find(tmp_path, TASKS["sst2"], "dev") == plain
    with pytest.raises(ValueError, match=r"sst2: no test set; looked for .*SST-2/test\.tsv, .*SST-2/test\.tsv\.gz"):
        find(tmp_path, TASKS["sst2"], "test")


def test_mnli_has_two_sets_to_judge_by_and_one_to_learn_from(tmp_path: Path) -> None:
    train = written(tmp_path / "MNLI" / "train.tsv", "")
    either = written(tmp_path / "MNLI" / "dev.tsv", "")
    assert find(tmp_path, TASKS["mnli"], "train") == find(tmp_path, TASKS["mnli-mm"], "train") == train
    assert find(tmp_path, TASKS["mnli"], "dev") == either
    with pytest.raises(ValueError, match=r"MNLI/dev_mismatched\.tsv, .*MNLI/dev_mismatched\.tsv\.gz$"):
        find(tmp_path, TASKS["mnli-mm"], "dev")
    for name, task in (("matched", "mnli"), ("mismatched", "mnli-mm")):
        for split in ("dev", "test"):
            path = written(tmp_path / "MNLI" / f"{split}_{name}.tsv", "")
            assert find(tmp_path, TASKS[task], split) == path


def test_an_unknown_split_lists_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="rte has no split 'validation'; it has train, dev, test"):
        find(tmp_path, TASKS["rte"], "validation")
    with pytest.raises(ValueError, match="ax has no split 'train'; it has dev, test"):
        find(tmp_path, TASKS["ax"], "train")
