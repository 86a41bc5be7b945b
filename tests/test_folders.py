import os
import sys
from pathlib import Path

import pytest

from regard import folders
from regard.folders import restore, verify, write_folder


def fill(text: str):
    return lambda temporary: (temporary / "a.txt").write_text(text)


def test_a_folder_is_written_and_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "model"
    for text in ("one", "two"):
        write_folder(folder, fill(text))
        assert (folder / "a.txt").read_text() == text
        verify(folder)
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_an_error_while_writing_keeps_the_old_folder(tmp_path: Path) -> None:
    def fail(temporary: Path) -> None:
        (temporary / "a.txt").write_text("half")
        raise OSError(28, "No space left on device")

    folder = tmp_path / "model"
    with pytest.raises(OSError, match="No space left"):
        write_folder(folder, fail)
    assert list(tmp_path.iterdir()) == []
    write_folder(folder, fill("whole"))
    with pytest.raises(OSError, match="No space left"):
        write_folder(folder, fail)
    verify(folder)
    assert (folder / "a.txt").read_text() == "whole"
    assert len(list(tmp_path.iterdir())) == 1


def test_an_interrupt_between_the_two_renames_loses_nothing(tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / "model"
    write_folder(folder, fill("old"))
    rename = Path.rename

    def die(path: Path, target: Path) -> Path:
        if target == folder:
            raise KeyboardInterrupt
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(folders.Path, "rename", die)
        with pytest.raises(KeyboardInterrupt):
            write_folder(folder, fill("new"))
    assert not folder.exists()
    restore(folder)
    verify(folder)
    assert (folder / "a.txt").read_text() == "old"
    write_folder(folder, fill("new"))
    assert (folder / "a.txt").read_text() == "new"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "a.txt").write_text("onf"), r"a\.txt: damaged"),
        (lambda f: (f / "a.txt").write_text(""), r"a\.txt: damaged"),
        (lambda f: (f / "a.txt").unlink(), r"a\.txt: missing"),
        (lambda f: (f / "hashes.json").unlink(), r"hashes\.json: missing or damaged"),
        (lambda f: (f / "hashes.json").write_text("{"), r"hashes\.json: missing or damaged"),
    ],
)
def test_damaged_files_are_reported(tmp_path: Path, damage, message) -> None:
    write_folder(tmp_path / "model", fill("one"))
    damage(tmp_path / "model")
    with pytest.raises(ValueError, match=message):
        verify(tmp_path / "model")


def test_the_current_folder_can_be_verified_and_restored(tmp_path: Path, monkeypatch) -> None:
    write_folder(tmp_path / "model", fill("one"))
    monkeypatch.chdir(tmp_path / "model")
    restore(Path())
    verify(Path())
    assert Path("a.txt").read_text() == "one"
    Path("a.txt").write_text("two")
    with pytest.raises(ValueError, match="a.txt: damaged"):
        verify(Path())


def test_a_folder_is_written_on_windows_where_folders_cannot_be_opened(tmp_path: Path, monkeypatch) -> None:
    real, modes, count = os.open, {}, 0

    def opened(path: Path, mode: int) -> int:
        if Path(path).is_dir():
            raise PermissionError(13, "Permission denied", str(path))
        descriptor = real(path, mode)
        modes[descriptor] = mode
        return descriptor

    def synced(descriptor: int) -> None:
        nonlocal count
        count += 1
        if modes[descriptor] & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(9, "Bad file descriptor")

    with monkeypatch.context() as windows:
        windows.setattr(folders.os, "open", opened)
        windows.setattr(folders.os, "fsync", synced)
        windows.setattr(sys, "platform", "win32")
        write_folder(tmp_path / "model", fill("one"))
    verify(tmp_path / "model")
    assert count == 2  # a.txt and hashes.json
