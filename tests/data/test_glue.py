import gzip
from pathlib import Path

import pytest

from regard.data.glue import TASKS, find, read
from regard.data.tables import Example

# Files of each task with the columns of GLUE, bars for tabs: for each split the file name, the header, and lines
# written for this test with the examples expected from them. Quotes are text, closed or not.
PARSES = "sentence1_binary_parse|sentence2_binary_parse|sentence1_parse|sentence2_parse"
MNLI = f"index|promptID|pairID|genre|{PARSES}|sentence1|sentence2"
FIVE = "label1|label2|label3|label4|label5|gold_label"
OFFICIAL = {
    ("cola", "train"): (
        "CoLA/train.tsv",
        None,
        {
            'gj04|1||Ann read "Emma" twice.': ('Ann read "Emma" twice.', None, "acceptable"),
            "c-05|0|*|Ann the book read her.": ("Ann the book read her.", None, "unacceptable"),
        },
    ),
    ("cola", "dev"): (
        "CoLA/dev.tsv",
        None,
        {
            'gj04|0|*|"Him came.': ('"Him came.', None, "unacceptable"),
            "gj04|1||He came.": ("He came.", None, "acceptable"),
        },
    ),
    ("cola", "test"): (
        "CoLA/test.tsv",
        "index|sentence",
        {'0|Bo said "no".': ('Bo said "no".', None, None), "1|Bo no.": ("Bo no.", None, None)},
    ),
    ("sst2", "dev"): (
        "SST-2/dev.tsv",
        "sentence|label",
        {
            "a `` warm '' little film |1": ("a `` warm '' little film ", None, "positive"),
            '" dull |0': ('" dull ', None, "negative"),
        },
    ),
    ("sst2", "test"): (
        "SST-2/test.tsv",
        "index|sentence",
        {'0|" dull': ('" dull', None, None), "1|warm": ("warm", None, None)},
    ),
    ("mrpc", "train"): (
        "MRPC/train.tsv",
        "\ufeffQuality|#1 ID|#2 ID|#1 String|#2 String",
        {
            '1|70|71|" We won , " he said .|He said : " We won .': (
                '" We won , " he said .',
                'He said : " We won .',
                "equivalent",
            ),
            "0|72|73|It rose .|It fell .\r": ("It rose .", "It fell .", "not_equivalent"),
        },
    ),
    ("mrpc", "test"): (
        "MRPC/test.tsv",
        "\ufeffindex|#1 ID|#2 ID|#1 String|#2 String",
        {'0|1|0|" It rose .|It fell .': ('" It rose .', "It fell .", None)},
    ),
    ("qqp", "train"): (
        "QQP/train.tsv",
        "id|qid1|qid2|question1|question2|is_duplicate",
        {
            '10|1|0|What is "tea"?|What does "tea mean?|1': ('What is "tea"?', 'What does "tea mean?', "duplicate"),
            "11|0|1|Who came?|Why?|0": ("Who came?", "Why?", "not_duplicate"),
        },
    ),
    ("qqp", "test"): (
        "QQP/test.tsv",
        "id|question1|question2",
        {'0|"Who|Why?': ('"Who', "Why?", None), "1|How?|How so?": ("How?", "How so?", None)},
    ),
    ("stsb", "dev"): (
        "STS-B/dev.tsv",
        "index|genre|filename|year|old_index|source1|source2|sentence1|sentence2|score",
        {
            '0|main-news|a|2015|4|none|none|A "big" dog.|A dog|4.250': ('A "big" dog.', "A dog", "4.250"),
            '1|main-news|b|2015|5|x|y|A dog."|A car.|0.000': ('A dog."', "A car.", "0.000"),
        },
    ),
    ("stsb", "test"): (
        "STS-B/test.tsv",
        "index|genre|filename|year|old_index|source1|source2|sentence1|sentence2",
        {'0|main-news|a|2015|4|x|y|A dog."|A car.': ('A dog."', "A car.", None)},
    ),
    ("mnli", "train"): (
        "MNLI/train.tsv",
        f"{MNLI}|label1|gold_label",
        {
            '0|3|3e|fiction|( a )|( b )|(A)|(B)|"Go!" he said.|He spoke.|neutral|entailment': (
                '"Go!" he said.',
                "He spoke.",
                "entailment",
            ),
            '1|3|3c|fiction|( a )|( b )|(A)|(B)|"Go|He sat.|neutral|contradiction': ('"Go', "He sat.", "contradiction"),
        },
    ),
    ("mnli", "dev"): (
        "MNLI/dev_matched.tsv",
        f"{MNLI}|{FIVE}",
        {
            "0|4|4n|travel|( a )|( b )|(A)|(B)|He left.|He took a bus.|entailment|neutral|neutral|neutral|entailment|"
            "neutral": ("He left.", "He took a bus.", "neutral")
        },
    ),
    ("mnli", "test"): ("MNLI/test_matched.tsv", MNLI, {'0|5|5|x|( a )|( b )|(A)|(B)|"A.|B.': ('"A.', "B.", None)}),
    ("mnli-mm", "dev"): (
        "MNLI/dev_mismatched.tsv",
        f"{MNLI}|{FIVE}",
        {
            '0|6|6c|letters|( a )|( b )|(A)|(B)|"It" rains.|It is dry.|neutral|contradiction|contradiction|neutral|'
            "neutral|contradiction": ('"It" rains.', "It is dry.", "contradiction")
        },
    ),
    ("mnli-mm", "test"): (
        "MNLI/test_mismatched.tsv",
        MNLI,
        {"0|7|7|x|( a )|( b )|(A)|(B)|C.|D.": ("C.", "D.", None)},
    ),
    ("qnli", "dev"): (
        "QNLI/dev.tsv",
        "index|question|sentence|label",
        {
            '0|Who wrote "Emma"?|Austen did.|entailment': ('Who wrote "Emma"?', "Austen did.", "entailment"),
            '1|When?|"She did.|not_entailment': ("When?", '"She did.', "not_entailment"),
        },
    ),
    ("qnli", "test"): ("QNLI/test.tsv", "index|question|sentence", {'0|When?|"She did.': ("When?", '"She did.', None)}),
    ("rte", "dev"): (
        "RTE/dev.tsv",
        "index|sentence1|sentence2|label",
        {
            '0|"It rains," said Bo.|Bo spoke.|entailment': ('"It rains," said Bo.', "Bo spoke.", "entailment"),
            '1|It rains."|It is dry.|not_entailment': ('It rains."', "It is dry.", "not_entailment"),
        },
    ),
    ("rte", "test"): ("RTE/test.tsv", "index|sentence1|sentence2", {'0|It rains."|Dry.': ('It rains."', "Dry.", None)}),
    ("wnli", "dev"): (
        "WNLI/dev.tsv",
        "index|sentence1|sentence2|label",
        {
            '0|The "ball" hit it and it broke.|It broke.|1': (
                'The "ball" hit it and it broke.',
                "It broke.",
                "entailment",
            ),
            '1|"It broke.|The ball broke.|0': ('"It broke.', "The ball broke.", "not_entailment"),
        },
    ),
    ("wnli", "test"): ("WNLI/test.tsv", "index|sentence1|sentence2", {'0|"It.|A ball.': ('"It.', "A ball.", None)}),
    ("ax", "dev"): (
        "AX/diagnostic-full.tsv",
        "Lexical Semantics|Predicate-Argument Structure|Logic|Knowledge|Domain|Premise|Hypothesis|Label",
        {
            '||Negation||News|Bo "slept".|Bo did not sleep.|contradiction': (
                'Bo "slept".',
                "Bo did not sleep.",
                "contradiction",
            ),
            'Quantifiers||||News|"All slept.|Bo slept.|neutral': ('"All slept.', "Bo slept.", "neutral"),
        },
    ),
    ("ax", "test"): (
        "diagnostic/diagnostic.tsv",
        "index|sentence1|sentence2",
        {'0|"All slept.|Bo slept.': ('"All slept.', "Bo slept.", None), "1|A.|B.": ("A.", "B.", None)},
    ),
}


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.replace("|", "\t").encode() + b"\n"
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize(("name", "split"), OFFICIAL)
def test_each_split_is_read_in_the_format_of_glue(tmp_path: Path, name, split) -> None:
    file, header, examples = OFFICIAL[name, split]
    path = written(tmp_path / file, "\n".join([*([] if header is None else [header]), *examples]))
    assert find(tmp_path, TASKS[name], split) == path
    found = list(read(TASKS[name], path, labelled=split != "test"))
    assert found == [Example(*expected) for expected in examples.values()]


def test_every_task_has_labelled_and_unlabelled_splits() -> None:
    for split in ("labelled", "test"):
        assert {name for name, part in OFFICIAL if (part == "test") == (split == "test")} == set(TASKS)


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


def test_an_unknown_label_is_reported_with_file_line_and_valid_labels(tmp_path: Path) -> None:
    path = written(tmp_path / "dev.tsv", "sentence|label\nfine|1\nfine|2")
    with pytest.raises(ValueError, match=r"dev\.tsv, line 3: unknown label '2'; sst2 has 0, 1"):
        list(read(TASKS["sst2"], path))
    # a file without a header starts with an example
    path = written(tmp_path / "dev.tsv", "gj04|good||Fine.")
    with pytest.raises(ValueError, match=r"line 1: unknown label 'good'"):
        list(read(TASKS["cola"], path))


@pytest.mark.parametrize("score", ["5.1", "-1", "nan", "five"])
def test_a_similarity_outside_the_scale_is_reported(tmp_path: Path, score) -> None:
    path = written(tmp_path / "dev.tsv", f"sentence1|sentence2|label\na|b|5\na|b|{score}")
    with pytest.raises(ValueError, match=rf"dev\.tsv, line 3: '{score}' is not a number from 0 to 5"):
        list(read(TASKS["stsb"], path))


def test_a_missing_column_is_reported_with_the_existing_ones(tmp_path: Path) -> None:
    path = written(tmp_path / "dev.tsv", "index|sentence1|sentence2\n0|He ran.|He sat.")
    with pytest.raises(ValueError, match=r"no column 'label'; its columns are 'index', 'sentence1', 'sentence2'"):
        list(read(TASKS["mnli"], path))


INCOMPLETE = "id|qid1|qid2|question1|question2|is_duplicate\n1|2|3|How?|In what\nway?|1\n2|3|4|Who?|Why?|0"


def test_incomplete_lines_of_qqp_are_skipped_and_counted(tmp_path: Path) -> None:
    path = written(tmp_path / "train.tsv", INCOMPLETE)
    target: list[str] = []
    assert list(read(TASKS["qqp"], path, warn=target.append)) == [Example("Who?", "Why?", "not_duplicate")]
    assert target == [f"{path}: skipped 2 lines with too few columns, the first is line 2"]
    with pytest.warns(UserWarning, match="2 lines with too few columns"):
        list(read(TASKS["qqp"], path))


def test_incomplete_lines_of_other_tasks_are_errors(tmp_path: Path) -> None:
    # in a test set, each line needs a prediction
    with pytest.raises(ValueError, match="line 2: 5 columns instead of 6"):
        list(read(TASKS["qqp"], written(tmp_path / "test.tsv", INCOMPLETE), labelled=False))
    with pytest.raises(ValueError, match="line 2: 7 columns instead of 6"):
        list(read(TASKS["qqp"], written(tmp_path / "train.tsv", f"{INCOMPLETE.splitlines()[0]}\n1|2|3|How?|So?|1|1")))
    with pytest.raises(ValueError, match="line 2: 2 columns instead of 3"):
        list(read(TASKS["rte"], written(tmp_path / "train.tsv", "sentence1|sentence2|label\nIt rains.|It")))


def test_files_are_found_plain_or_gzipped(tmp_path: Path) -> None:
    zipped = written(tmp_path / "SST-2" / "dev.tsv.gz", "")
    assert find(tmp_path, TASKS["sst2"], "dev") == zipped
    plain = written(tmp_path / "SST-2" / "dev.tsv", "")
    assert find(tmp_path, TASKS["sst2"], "dev") == plain
    with pytest.raises(
        ValueError, match=r": no test file of sst2; looked for .*SST-2/test\.tsv, .*SST-2/test\.tsv\.gz"
    ):
        find(tmp_path, TASKS["sst2"], "test")


def test_mnli_has_one_training_set_and_two_validation_sets(tmp_path: Path) -> None:
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


def test_an_unknown_split_is_reported_with_the_existing_ones(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="rte has no split 'validation'; it has train, dev, test"):
        find(tmp_path, TASKS["rte"], "validation")
    with pytest.raises(ValueError, match="ax has no split 'train'; it has dev, test"):
        find(tmp_path, TASKS["ax"], "train")
