"""Secrets: each shape is masked, training code is left alone, the time is linear, and nothing asks the network."""

from __future__ import annotations

import base64
import pickle
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from workbench.share.looking import kinds_in
from workbench.snapshot.secrets.literals import masked_cell, masked_code
from workbench.snapshot.secrets.masking import HEADS, hearing, masked

MIXED = "a1B2" * 9
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEAx7abcd\nabcdefgh1234567890==\n-----END RSA PRIVATE KEY-----"
JWT = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
#: A text, and the part of it that must be masked.
SECRETS = {
    "a JSON web token": (f"sent {JWT} there", JWT),
    "a private key": (KEY, "abcdefgh1234567890"),
    "an OpenSSH key": (KEY.replace("RSA", "OPENSSH"), "MIIEpAIBAAKCAQEA"),
    "a key in a comment": ("# " + KEY.replace("\n", "\n# "), "abcdefgh1234567890"),
    "a key in JSON": (KEY.replace("\n", "\\n"), "abcdefgh1234567890"),
    "a key that was cut": (KEY.rpartition("\n")[0], "abcdefgh1234567890"),
    "Slack": ("xoxb-123456789012-1234567890123-AbCdEfGhIjKl", "AbCdEfGhIjKl"),
    "a Slack webhook": ("https://hooks.slack.com/services/T00000000/B00000000/" + "X" * 24, "X" * 24),
    "a Discord webhook": ("https://discord.com/api/webhooks/123456789012345678/abcDEF-ghi_jkl", "abcDEF-ghi_jkl"),
    "a Teams webhook": ("https://x.webhook.office.com/webhookb2/0a1b2c3d-1111@aa/IncomingWebhook/abc/def", "abc/def"),
    "Azure storage": (f"AccountName=a;AccountKey={'Ab1+' * 21}Ab==;EndpointSuffix=x", "Ab1+Ab1+"),
    "an Azure signature": ("https://a.blob.core.windows.net/c?sig=Abc123%2FAbc123Abc123Abc%3D", "Abc123Abc"),
    "npm": ("npm_" + MIXED, MIXED),
    "a file of npm's": (f"//registry.npmjs.org/:_authToken=npm_{MIXED}", MIXED),
    "PyPI": ("pypi-AgEIcHlwaS5vcmcCJ" + "a1B2" * 20, "a1B2a1B2"),
    "Stripe": ("sk_live_51Habcdefghijklmnopqrstuvwxyz0123456789", "0123456789"),
    "Stripe's tests": ("sk_test_4eC39HqLyjWDarjtT1zdp7dc", "zdp7dc"),
    "SendGrid": ("SG." + "a1" * 11 + "." + "b2C" * 14 + "x", "b2Cb2C"),
    "AWS": ("AKIAIOSFODNN7EXAMPLE", "IOSFODNN7"),
    "AWS's secret": ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "K7MDENG"),
    "GitHub": ("ghp_" + MIXED, MIXED),
    "GitHub, fine-grained": ("github_pat_11ABCDEFG0" + "a1B2" * 15, "a1B2a1B2"),
    "GitLab": ("glpat-" + "a1B2" * 5, "a1B2a1B2"),
    "OpenAI": ("sk-proj-" + MIXED, MIXED),
    "Anthropic": ("sk-ant-api03-" + MIXED, MIXED),
    "Hugging Face": ("hf_" + "aB" * 17, "aBaB"),
    "W&B": ("wandb.login(key='" + "0a1b2c3d" * 5 + "')", "0a1b2c3d"),
    "Telegram": ("110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsawx", "AAHdqTcv"),
    "Twilio": ("SK" + "0a1b" * 8, "0a1b0a1b"),
    "PASS=": ("PASS=hunter2x", "hunter2x"),
    "PASS=''": ("PASS='hunter2'", "hunter2"),
    "pwd =": ("pwd = 'abc12'", "abc12"),
    "pwd, bare": ("pwd = hunter22", "hunter22"),
    "a password in a log": ("connect with password=hunter2", "hunter2"),
    "a variable of a shell": ("export DB_PASS=tr0ub", "tr0ub"),
    "an option": ("train.py --pass hunter2hunter2", "hunter2"),
    "an address": ("s3://AKIA123:wJal/rXU@bucket/x", "wJal/rXU"),
    "a header": ("Authorization: Bearer abcdef123456789", "abcdef123456789"),
    "a webhook in the magic's line": ("%%train d --goal max a --notify https://example.org/hooky/abc", "hooky"),
    "a webhook in a comment": ("#| notify: https://example.org/hooky/abc", "hooky"),
    "a printed line": ("INFO got ghp_" + MIXED + "\\nnext", MIXED),
    "JSON in JSON": ('"text": "x\\nghp_' + MIXED + '"', MIXED),
}

HARMLESS = [
    "max_tokens = 100",
    "num_tokens=512, vocab_size=32000",
    "token = tokenizer.eos_token",
    "token = tokenizer.special_tokens_v2",
    "tokenizer(text, eos_token='<|endoftext|>', mask_token='[MASK]')",
    '"sha256": "' + "0a1b2c3d" * 8 + '"',
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "550e8400-e29b-41d4-a716-446655440000",
    'model = "meta-llama/Llama-3.2-1B-Instruct"',
    "git 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "seed = 0x9fceb02d0ae598e95dc970b74767f193",
    "def f():\n    pass  # second pass: 93.5%",
    "n_pass = 3; forward_pass = model(x)",
    "pwd = os.getcwd()",
    "password = getpass.getpass()",
    "key, subkey = jax.random.split(jax.random.PRNGKey(0))",
    "attn.key.weight: torch.Size([64, 64])",
    "key_padding_mask=mask, d_key=64",
    "AP = APCalculator(x)",
    "class PassThrough(nn.Module): pass",
    "from sklearn import svm  # sk-learn",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUA",
    "https://github.com/x/y/blob/9fceb02d0ae598e95dc970b74767f19372d61af8/z.py",
    "https://host:8888/lab@x and s3://bucket/key/data.parquet",
    "notify me at https://jupyter.org/about",
    "secrets.token_hex(16)",
    "layers.0.attention.key.weight_v2",
]


@pytest.mark.parametrize(("text", "secret"), SECRETS.values(), ids=SECRETS.keys())
def test_a_secret_is_masked_wherever_it_stands(text: str, secret: str) -> None:
    assert secret in text
    assert secret not in masked(text)
    assert secret not in masked_cell(f"x = 1\n# {text.replace(chr(10), chr(10) + '# ')}\ny = x")
    code = f"print({text!r})\nx = 1  # {text.splitlines()[0]}\n"
    shown = masked_code(code)
    compile(shown, "code", "exec")
    assert secret not in shown.split("\n")[0]


@pytest.mark.parametrize("text", HARMLESS)
def test_training_code_is_left_alone(text: str) -> None:
    assert masked(text) == text
    assert masked_cell(text) == text
    assert masked_code(text) == text


def test_blobs_and_pictures_hold_nothing() -> None:
    some = random.Random(0)
    for _ in range(20):
        assert masked(base64.b64encode(some.randbytes(100_000)).decode()) is not None
        picture = base64.b64encode(some.randbytes(100_000)).decode()
        assert masked(picture) == picture
        digests = "\n".join(some.randbytes(32).hex() for _ in range(500))
        assert masked(digests) == digests


def test_the_quick_look_knows_how_each_match_begins() -> None:
    from workbench.snapshot.secrets.detector import looks

    unknown = {head for look in looks() for head in look.heads if not any(quick in head for quick in HEADS)}
    # The quick look asks for an `@` or a webhook's word behind an address; `gh` begins five heads that it knows.
    assert unknown == {"https://", "http://", "://", "gh"}


def test_what_is_heard_says_places_and_kinds() -> None:
    with hearing() as heard:
        masked(f"fine\nPASS=hunter2x\n{JWT}")
    assert [(one.line, one.kind) for one in heard] == [(2, "Value of a secret's name"), (3, "JSON Web Token")]
    assert "hunter2x" not in repr(heard)


# ---------------------------------------------------------------------------------------------------------------------
# Time

PIECES = [
    *("key", "token=", 'token="', 'token="""a', "token: a.b", "password=a1(", "pass", "eyJ", "=eyJ", "sk-", "-sk-A1"),
    *("://", "a://", "://:a", "https://hooks.slack.com/", "-----BEGIN PRIVATE KEY-----", "bearer a", "xoxb-1-"),
    *("aws key ", "AC", "12345678:", "-us1", "accountkey=", "SG.a", "notify=https://", "!token=a ", 'get("key", "'),
    *('f"{token=', '\\"token\\": \\"', '"key": ("', "key: str[", "PuTTY-User-Key-File-2: a\n", "print(key) # pass\n"),
]


def seconds(text: str) -> float:
    """Of this process's own time, so that a busy machine does not count."""
    begun = time.process_time()
    masked(text)
    return time.process_time() - begun


@pytest.mark.parametrize("piece", PIECES)
def test_the_time_is_linear_in_what_is_made_to_be_slow(piece: str) -> None:
    size = 30_000
    text = piece * (4 * size // len(piece) + 1)
    # A square makes sixteen of four; below a hundredth of a second a clock tells nothing.
    most = 9 * max(min(seconds(text[:size]) for _ in range(2)), 0.01)
    # The shorter of two times, where the first one was not short enough.
    assert seconds(text[: 4 * size]) < most or seconds(text[: 4 * size]) < most


def test_megabytes_take_seconds() -> None:
    some = random.Random(0)
    line = ("the loss of epoch 12 is 0.123, token by token, and passes on; " * 100_000)[:2_000_000]
    texts = {
        "one line": line,
        "lines": line.replace("; ", "\n"),
        "base64": base64.b64encode(some.randbytes(1_500_000)).decode(),
    }
    assert {name for name, text in texts.items() if seconds(text) > 6} == set()


@pytest.mark.parametrize("count", [400, 1600])
def test_code_with_many_f_strings_is_masked_in_time(count: int) -> None:
    code = "".join(f'print(f"epoch {{x}} of {n}: token {{x}}")  # pass {n}\n' for n in range(count))
    begun = time.process_time()
    assert masked_code(code) == code
    assert time.process_time() - begun < count * 0.005


# ---------------------------------------------------------------------------------------------------------------------
# No network, and late


def test_neither_the_network_nor_the_detector_is_touched_without_need() -> None:
    program = f"""
import sys
def hook(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "subprocess.Popen"):
        raise AssertionError(event)
sys.addaudithook(hook)
from workbench.snapshot.secrets.masking import masked
masked("token = tokenizer.eos_token; key = 3; passed = True")
assert "detect_secrets" not in sys.modules
shown = masked("AKIAIOSFODNN7EXAMPLE and xoxb-123456789012-1234567890123-AbCdEfGhIjKl sk_live_{"a1" * 12}")
assert shown == "*** and *** ***", shown
assert "detect_secrets" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


# ---------------------------------------------------------------------------------------------------------------------
# Captured values


class Client:
    def __init__(self) -> None:
        self.password = "hunter2"


class Bomb:
    def __reduce__(self) -> Any:
        return (exec, ("raise SystemExit('it was unpickled')",))


@pytest.mark.parametrize(
    "value",
    [
        {"api_key": "abcdefgh"},
        [{"deep": [{"password": "hunter2"}]}],
        Client(),
        ("hub_token", "hunter2hunter2"),
        {"x": b"ghp_" + MIXED.encode()},
        {"k": ["AKIAIOSFODNN7EXAMPLE"]},
        {"x": bytearray(b"y" * 99 + b" ghp_" + MIXED.encode())},
        [Bomb(), {"secret_key": "abcdefgh"}],
    ],
    ids=["entry", "deep entry", "attribute", "pair", "bytes", "list", "bytearray", "beside a bomb"],
)
def test_a_secret_in_a_pickle_is_seen_without_unpickling(tmp_path: Path, value: Any) -> None:
    for protocol in (2, 5):
        (tmp_path / "value").write_bytes(pickle.dumps(1, protocol) + pickle.dumps(value, protocol))
        assert kinds_in(tmp_path / "value")


@pytest.mark.parametrize(
    "value",
    [
        {"eos_token": "<|endoftext|>", "mask_token": "[MASK]", "token": "bert-base", "max_tokens": 100},
        {"key": "train_images_v2_x", "keys": ["key", "sentence_text_2"]},
        ("token", "sentence_text"),
        random.Random(0).randbytes(1_000_000),
    ],
    ids=["tokenizer", "columns", "pair", "bytes"],
)
def test_harmless_values_are_published(tmp_path: Path, value: Any) -> None:
    (tmp_path / "value").write_bytes(pickle.dumps(value, 5))
    assert kinds_in(tmp_path / "value") == []
