import pytest

from workbench.snapshot.notebook import executed_cells, is_secret, keep_file, link_file, masked, order_digest


def test_executed_cells_keep_their_order_and_number():
    cells = executed_cells(["", "import os", "", "x = 1", "%%train\npass"], cell_id="abc")
    assert [(cell.number, cell.source) for cell in cells] == [(1, "import os"), (3, "x = 1"), (4, "%%train\npass")]
    assert [cell.cell_id for cell in cells] == [None, None, "abc"]
    assert len({cell.digest for cell in cells}) == 3
    assert order_digest(cells) != order_digest(cells[::-1])
    assert executed_cells([{"source": "x", "cell_id": "q"}], "abc")[0].cell_id == "q"
    assert executed_cells([]) == []


def test_the_file_on_the_disk_is_kept_once(store, tmp_path):
    path = tmp_path / "a notebook.ipynb"
    path.write_text('{"cells": []}')
    kept = keep_file(path, store)
    assert kept["size"] == 13
    assert store.get_blob(kept["sha256"]) == path.read_bytes()
    link_file(store.blob_path(kept["sha256"]), tmp_path)
    path.write_text("changed")
    assert (tmp_path / "notebook.ipynb").read_text() == '{"cells": []}'
    assert keep_file(None, store) is None
    assert keep_file(tmp_path / "none.ipynb", store) == {"path": str(tmp_path / "none.ipynb"), "missing": True}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("%%train digits --token abcdef12345", "%%train digits --token ***"),
        ("%%train --api-key=sk-12 --seed 0", "%%train --api-key=*** --seed 0"),
        ('OPENAI_API_KEY = "sk-aaaaaaaaaaaa"', 'OPENAI_API_KEY = "***"'),
        ("os.environ['HF_TOKEN'] = 'hf_aaaaaaaaaaaa'", "os.environ['HF_TOKEN'] = '***'"),
        ("wandb.login(key='0123456789abcdef')", "wandb.login(key='***')"),
        ("password: hunter2hunter22", "password: ***"),
        ("engine = 'postgres://me:pw@host/db'", "engine = 'postgres://***@host/db'"),
        ("git+https://user:tok@github.com/x/y", "git+https://***@github.com/x/y"),
        ('{"api_key": "abcdefgh12", "x": 1}', '{"api_key": "***", "x": 1}'),
        ("if token == 'abcdefghij': pass", "if token == 'abcdefghij': pass"),
        ("tokenizer = Tokenizer(vocab)", "tokenizer = Tokenizer(vocab)"),
        ("token = tokens[i]", "token = tokens[i]"),
        ("sorted(xs, key=len)", "sorted(xs, key=len)"),
        ("keys = list(d.keys())", "keys = list(d.keys())"),
        ("for key in d: del key", "for key in d: del key"),
        ("max_tokens=128", "max_tokens=128"),
        ("lr = 0.1", "lr = 0.1"),
        ("pad_token='<pad>'", "pad_token='<pad>'"),
        ("mail = 'a@b.c'", "mail = 'a@b.c'"),
    ],
)
def test_secrets_are_masked_and_code_is_not(text, shown):
    assert masked(text) == shown


def test_names_of_secrets():
    for name in ("OPENAI_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "PGPASSWORD", "BASIC_AUTH"):
        assert is_secret(name)
    for name in ("OMP_NUM_THREADS", "LANG", "CUDA_VISIBLE_DEVICES", "AUTHOR"):
        assert not is_secret(name)
