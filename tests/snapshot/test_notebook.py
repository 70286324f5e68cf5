import json
import re
import time

import pytest

from workbench.snapshot.notebook import executed_cells, keep_file, link_file, masked_notebook, order_digest
from workbench.snapshot.secrets.literals import masked_cell
from workbench.snapshot.secrets.masking import is_secret, masked


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
        ('API_KEY: str | None = "sk-12345678"', 'API_KEY: str | None = "***"'),
        ("%env HF_TOKEN hf_12345678", "%env HF_TOKEN ***"),
        ("%env PASSWORD=correcthorsebattery", "%env PASSWORD=***"),
        ("    %set_env PASSWORD=correct horse\nx", "    %set_env PASSWORD=***\nx"),
        ("%env MAX_TOKENS=128", "%env MAX_TOKENS=128"),
        ("%env TOKENIZERS_PARALLELISM=false", "%env TOKENIZERS_PARALLELISM=false"),
        ("%env TOKEN=$OTHER", "%env TOKEN=$OTHER"),
        ("!export A=1 TOKEN=abc; ls", "!export A=1 TOKEN=***; ls"),
        ("!TOKEN=abc python train.py", "!TOKEN=*** python train.py"),
        ("!pip install tokenizers==0.15.2 keyring", "!pip install tokenizers==0.15.2 keyring"),
        ('os.environ.setdefault("HF_TOKEN", "hf_12345678")', 'os.environ.setdefault("HF_TOKEN", "***")'),
        ("os.environ.get('API_KEY', 'sk-12345678')", "os.environ.get('API_KEY', '***')"),
        ('api_key = """sk-1234\n5678"""', 'api_key = """***"""'),
        ('api_key = b"sk-12345678"', 'api_key = b"***"'),
        ('api_key = f"sk-12345678"', 'api_key = f"***"'),
        ('api_key = ("sk-12345678")', 'api_key = ("***")'),
        ('{"Authorization": "Bearer sk-12345678"}', '{"Authorization": "***"}'),
        ('-H "Authorization: Bearer abcdefgh"', '-H "Authorization: Bearer ***"'),
        ('raise Error("no password=hunter2SECRET6")', 'raise Error("no password=***")'),
        ("the token password=hunter2SECRET6", "the token password=***"),
        ("<td>password=hunter2SECRET6</td>", "<td>password=***</td>"),
        ('{\\"api_key\\": \\"hunter2hunter2\\"}', '{\\"api_key\\": \\"***\\"}'),
        ("https://host/x?a=1&token=abcdefgh&b=2", "https://host/x?a=1&token=***&b=2"),
        ('\x1b[31mapi_key\x1b[0m \x1b[1m=\x1b[0m "\x1b[2mhunter2hunter2"', 'api_key = "***"'),
        ("see sk-Abcdefgh12345678 and ghp_abcdefghij0123456789", "see *** and ***"),
        ("hf_" + "aB" * 17 + " AKIAABCDEFGHIJKLMNOP xoxb-12345-67890 AIza" + "x" * 35, "*** *** *** ***"),
        ('class="sk-container-id-1 sk-estimator-doc-link"', 'class="sk-container-id-1 sk-estimator-doc-link"'),
        ("hf_AutoModelForCausalLM task-Abcdefgh12345678", "hf_AutoModelForCausalLM task-Abcdefgh12345678"),
        ("token = tokenizer(x)", "token = tokenizer(x)"),
        ('tokenizer = "bert-base-uncased"', 'tokenizer = "bert-base-uncased"'),
        ('columns = ["token", "sentence_text"]', 'columns = ["token", "sentence_text"]'),
        ('df.merge(on=["key", "timestamp"])', 'df.merge(on=["key", "timestamp"])'),
        ("f(max_new_tokens=128, key=None)", "f(max_new_tokens=128, key=None)"),
        ('lambda token: x, name="banana split"', 'lambda token: x, name="banana split"'),
        ('class Tokens:\n    """All the tokens."""', 'class Tokens:\n    """All the tokens."""'),
        ("KeyError: 'sentence_text'", "KeyError: 'sentence_text'"),
        ("{key: weights_of_epoch_12}", "{key: weights_of_epoch_12}"),
        ('key = f"layer_{i}_weights"', 'key = f"layer_{i}_weights"'),
    ],
)
def test_secrets_are_masked_and_code_is_not(text, shown):
    assert masked(text) == shown


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ('api_key: str = (\n    "hunter2"  # ü\n    "hunter2"\n)', "api_key: str = (\n    '***'\n)"),
        ('user, password = "me", "hunter2hunter2"', "user, password = \"me\", '***'"),
        ("ü = 'ü'; cookie = b'hunter2hunter2'", "ü = 'ü'; cookie = b'***'"),
        ('%%time\n!ls \\\n  -l\nx = !ls\nif x:\n    %pip list\npw = r"hunter2"', None),
        ('f"{login(token=\'hunter2\')} " + key("x")', 'f"{login(token=\'***\')} " + key("x")'),
        ('token = prefix + "_of_text"; tokens = tokens[:10]', 'token = prefix + "_of_text"; tokens = tokens[:10]'),
        ('signature = inspect.signature(f)\nprint("key")', 'signature = inspect.signature(f)\nprint("key")'),
    ],
)
def test_code_of_a_cell_is_read_as_code(cell, shown):
    assert masked_cell(cell) == (shown or cell.replace('r"hunter2"', "'***'"))


def test_five_thousand_cells_are_masked_in_a_moment():
    cells = [f"tokens_{n} = tokenizer('data/{n}.csv')\n" + "x = f(a, b)\n" * 60 for n in range(5000)]
    hostile = [
        "key" * 300_000,
        ("token=" + "'" * 3 + "a") * 100_000,
        "token" + " " * 1_000_000,
        "token: " + "a.b" * 300_000,
    ]
    begun = time.perf_counter()
    assert [masked_cell(cell) for cell in cells] == cells
    assert len([masked(text) for text in hostile]) == 4
    assert time.perf_counter() - begun < 20  # about 1 s where nothing else runs; a minute and more where it is squared


def cell_of(source, *outputs, **more):
    return {"cell_type": "code", "metadata": {}, "source": source, "outputs": [*outputs], **more}


def test_a_kept_notebook_holds_no_secret(store, tmp_path):
    picture = {"image/png": "sk-Abcdefgh12345678password=hunter2SECRET6"}
    notebook = {
        "cells": [
            cell_of(['api_key: str = """\n', 'SECRET-1"""\n'], {"output_type": "stream", "text": ["x", "\n"]}),
            cell_of("x", {"output_type": "stream", "text": ["password=hunter2SECRET2\n", "good"]}),
            cell_of("x", {"output_type": "display_data", "data": {"text/html": "<b>token='SECRET-3'</b>", **picture}}),
            cell_of(
                "x", {"output_type": "error", "evalue": "password=hunter2SECRET4", "traceback": ["key='SECRET-5'"]}
            ),
            cell_of("x", {"output_type": "display_data", "data": {"application/json": {"token": "SECRET-6"}}}),
            {"cell_type": "markdown", "metadata": {}, "source": "the password: hunter2SECRET7"},
        ],
        "metadata": {"papermill": {"parameters": {"hub_token": "SECRET8", "lr": 1}}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    path = tmp_path / "n.ipynb"
    path.write_text(json.dumps(notebook))
    kept = keep_file(path, store)
    data = store.get_blob(kept["sha256"])
    assert re.findall(rb"SECRET.?\d", data.replace(picture["image/png"].encode(), b"")) == []
    found = json.loads(data)
    assert found["cells"][0]["source"] == ["api_key: str = '***'\n"]
    assert found["cells"][1]["outputs"][0]["text"] == ["password=***\n", "good"]
    assert found["cells"][2]["outputs"][0]["data"]["image/png"] == picture["image/png"]
    assert found["metadata"]["papermill"]["parameters"] == {"hub_token": "***", "lr": 1}


def test_a_notebook_without_secrets_is_kept_to_the_byte(monkeypatch):
    plain = b'{ "cells":[{"cell_type":"code","source":"tokens = tokenizer(x)\\nkey = \\"a\\""}],"metadata":{} }'
    assert masked_notebook(plain) is plain
    assert masked_notebook(b"no notebook, password=hunter2SECRET6") == b"no notebook, password=***"
    # Pictures are long and hold every short word; they alone are no reason to read 50 MB of JSON.
    monkeypatch.setattr(json, "loads", None)
    large = b'{"cells": [{"image/png": "%skey/xox+pw==\\n"}]}' % (b"x" * 5000)
    assert masked_notebook(large) is large


def test_names_of_secrets():
    for name in (
        "OPENAI_API_KEY",
        "HF_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "DB_PASSWORD",
        "PGPASSWORD",
        "BASIC_AUTH",
        "Authorization",
    ):
        assert is_secret(name)
    for name in ("OMP_NUM_THREADS", "LANG", "CUDA_VISIBLE_DEVICES", "AUTHOR", "tokenizer"):
        assert not is_secret(name)
