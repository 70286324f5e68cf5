import os

import pytest

from workbench.snapshot.surroundings.data import describe, named_files


def test_a_file_is_described_by_its_content(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("1,2\n")
    one = describe(path)
    assert (one.size, one.files, one.sampled) == (4, 1, False)
    path.write_text("1,3\n")
    os.utime(path, ns=(1, 1))
    assert describe(path).digest != one.digest
    with pytest.raises(OSError, match="nowhere"):
        describe(tmp_path / "nowhere")


def test_a_large_file_is_sampled_and_says_so(tmp_path):
    path = tmp_path / "large.bin"
    with open(path, "wb") as file:
        file.truncate((1 << 26) + 12345)
    one = describe(path)
    assert one.sampled
    with open(path, "r+b") as file:
        file.seek(-1, 2)
        file.write(b"x")
    assert describe(path).digest != one.digest


def test_a_folder_is_described_by_its_entries(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("12")
    (tmp_path / "b").write_text("123")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "c").write_text("1")
    one = describe(tmp_path)
    assert (one.size, one.files) == (5, 2)
    (tmp_path / "in" / "d").write_text("")
    assert describe(tmp_path).digest != one.digest


def test_files_that_cells_name_are_found(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.csv").write_text("1")
    (tmp_path / "test.csv").write_text("2")
    found = named_files(
        [
            "df = pd.read_csv('data/train.csv')",
            'x = open("./test.csv"); y = "data/train.csv"; z = "no/such.file"; w = "just words"; v = "/"',
            "root = 'data/'\nbad = '\\n/etc/passwd'\nq = '/etc/passwd'\nempty = ''",
        ],
        tmp_path,
        seconds=60,
    )
    assert sorted(os.path.normpath(one.path) for one in found) == sorted(
        str(tmp_path / name) for name in ("data", "data/train.csv", "test.csv")
    )


def test_looking_for_files_ends_in_time(tmp_path):
    sources = [" ".join(f"'a/{i}-{j}.x'" for j in range(200)) for i in range(500)]
    assert named_files(sources, tmp_path, seconds=0.0) == []
