"""The options of ``%%train``: what is read, what is refused, what help and completion offer."""

import pytest

from workbench.errors import BadName, BadOption
from workbench.experiment.grammar import OPTIONS, completions, completions_comment, help_text, parse, parse_script
from workbench.records import Goal, Keep, Scheduler


def test_the_line_of_the_design_is_read():
    options = parse("digits --goal max val_acc --scheduler hyperband --steps 1-81 --eta 3 --seed 0")
    assert (options.name, options.goal, options.steps, options.seed) == ("digits", Goal("val_acc", "max"), (1, 81), 0)
    assert options.scheduler_for("hyperband") == Scheduler("hyperband", 1, 81, 3)
    assert options.written == {"name", "goal", "scheduler", "steps", "eta", "seed"}


def test_every_option_is_read():
    line = (
        "'my net' --goal=min val_loss --steps 3-81 --scheduler asha --eta 4 --table table1 --mode stop "
        "--brackets standard --searcher sobol --trials 50 --parallel 4 --weight 2.5 --priority -3 --for 1h30m "
        "--slots 0.25 --strategy fsdp --threads 1 "
        "--seed 7 --seeds 3 --storage s3://bucket/x --keep-data 1.5MB --mirror mlflow:http://host:5000 "
        "--deterministic --save-every 10m --setup-limit 15m --hang 30m --verify off --keep latest=2 "
        "--from digits@2/t0007:27 "
        "--notify https://example.org/hook --notify-command my-notify --alert 'loss is nan; no improvement in 3 steps' "
        "--plan --try --wait --again --same --store /tmp/s --cluster tcp://h:1 --script 'my train.py' "
        """--first '{"lr": 0.1}' --configurations '[{"lr": 0.1}, {"lr": 0.2}]' """
        "--metric 'loss (?P<val_loss>.)' --metric b=(.) -- --lr 'uniform(0, 1)' --name 'two words'"
    )
    options = parse(line)
    assert options.name == "my net"
    assert options.goal == Goal("val_loss", "min")
    assert options.scheduler_for("asha") == Scheduler("asha", 3, 81, 4, "table1", "stop", "standard")
    assert options.searcher_record.kind == "sobol"
    assert options.first.values == ({"lr": 0.1},)
    assert options.configurations.values == ({"lr": 0.1}, {"lr": 0.2})
    assert (options.trials, options.parallel, options.limit_s, options.slots) == (50, 4, 5400.0, 0.25)
    assert (options.weight, options.priority, options.strategy) == (2.5, -3, "fsdp")
    assert (options.seed, options.seeds_each, options.deterministic, options.threads) == (7, 3, "strict", 1)
    assert (options.save_every, options.hang_s, options.setup_limit_s) == (600.0, 1800.0, 900.0)
    assert not options.verify
    assert options.keep == Keep(latest=2)
    assert options.notify["command"] == "my-notify"
    assert options.alerts == ("loss is nan", "no improvement in 3 steps")
    assert options.parent == "digits@2/t0007:27"
    assert options.plan
    assert options.attempt
    assert options.wait
    assert options.again
    assert options.same
    assert options.storage == "s3://bucket/x"
    assert options.keep_data == 1_500_000
    assert [(one["kind"], one["where"]) for one in options.mirror] == [("mlflow", "http://host:5000")]
    assert (options.store, options.cluster) == ("/tmp/s", "tcp://h:1")
    assert options.script == "my train.py"
    assert options.metrics == ("loss (?P<val_loss>.)", "b=(.)")
    assert options.words == ("--lr", "uniform(0, 1)", "--name", "two words")
    assert options.written == {option.field for option in OPTIONS} | {"words"}


def test_leading_comments_are_options_and_the_line_wins():
    cell = "#| goal: max val_acc\n\n  #|  steps: 3-27\n#| wait: true\n#| again: false\n#| seed: 1\nlr = 1\n#| eta: 1\n"
    options = parse("digits --seed 2", cell)
    assert options.goal == Goal("val_acc", "max")
    assert options.steps == (3, 27)
    assert (options.wait, options.again, options.seed, options.eta) == (True, False, 2, 3)


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("--seeds 0", ["--seeds 0", "a whole number of 1 or more", "--seeds 3."]),
        ("--steps 0-9", ["--steps 0-9", "1 ≤ first ≤ last", "--steps 1-9."]),
        ("--steps 0-0", ["--steps 0-0", "--steps 1-27."]),
        ("--steps 9-3", ["--steps 9-3", "1 ≤ first ≤ last"]),
        ("--steps a-b", ["--steps a-b"]),
        ("--steps", ["--steps needs a value", "FIRST-LAST"]),
        ("--steps --plan", ["--steps needs a value"]),
        ("--keep newest=1", ["--keep newest=1", "experiment, best, latest and stopped", "--keep best=1,latest=1"]),
        ("--eta 1", ["--eta 1", "2 or more", "--eta 3"]),
        ("--eta 2.5", ["--eta 2.5", "whole number"]),
        ("--stesp 1-9", ["--stesp", "Did you mean --steps FIRST-LAST?"]),
        ("--gaol max acc", ["Did you mean --goal max|min METRIC?"]),
        ("--waiting", ["Did you mean --wait?"]),
        ("--xyzzy", ["The options are --goal, --steps"]),
        ("--goal best acc", ["--goal best acc", "max or min", "--goal max val_acc"]),
        ("--goal max", ["--goal needs a value"]),
        ("--goal max 7up", ["--goal max 7up"]),
        ("--scheduler ash", ["--scheduler ash", "hyperband, asha, median or all", "--scheduler asha"]),
        ("--seed -1", ["--seed -1", "0 or more"]),
        ("--for 8", ["--for 8", "8h"]),
        ("--for 0h", ["--for 0h"]),
        ("--for 99999999h", ["--for 99999999h", "at most 11574d", "--for 8h"]),
        ("--slots 1.5", ["--slots 1.5"]),
        ("--slots 8-2", ["--slots 8-2: expected the fewest and the most slots", "For example: --slots 2-8."]),
        ("--slots 0-4", ["--slots 0-4: expected the fewest", "1 ≤ fewest ≤ most", "For example: --slots 1-4."]),
        ("--slots 2-", ["--slots 2-: expected the fewest", "For example: --slots 2-8."]),
        ("--slots 1.5-3", ["--slots 1.5-3: expected", "two whole numbers"]),
        ("--slots a-b", ["--slots a-b: expected", "such as 2-8"]),
        ("--slots 2-4-8", ["--slots 2-4-8: expected"]),
        ("--slots autos", ["--slots autos: expected a whole number of slots", "or auto, with which as many trials"]),
        ("--plan=yes", ["--plan takes no value"]),
        ("--seed 1 --seed 2", ["--seed was given twice"]),
        ("one two", ["two names", "'one' and 'two'", '"one two"']),
        ("'open", ["close the open one"]),
    ],
)
def test_bad_input_is_refused_with_what_to_do(line, parts):
    with pytest.raises(BadOption) as caught:
        parse(line)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize("name", ["../etc", "a\x07b", "n" * 300])
def test_bad_names_are_refused(name):
    with pytest.raises(BadName):
        parse(f"'{name}'")


def test_a_bad_comment_names_its_line():
    with pytest.raises(BadOption, match=r"#\| steps: FIRST-LAST\?") as caught:
        parse("", "#| goal: max acc\n#| stesp: 1-9\n")
    assert caught.value.line == 3
    with pytest.raises(BadName) as named:
        parse("", "#| name: ../etc\n")
    assert named.value.line == 2
    with pytest.raises(BadOption, match="unexpected argument"):
        parse("", "#| seed: 1 2\n")


def test_help_names_every_option():
    text = help_text()
    assert all(f"--{option.name}" in text for option in OPTIONS)
    assert max(map(len, text.splitlines())) <= 120


def test_completion_offers_options_then_their_words():
    assert completions("digits --s") == [
        *(
            "--steps",
            "--scheduler",
            "--searcher",
            "--seeds",
            "--slots",
            "--strategy",
            "--seed",
            "--save-every",
            "--setup-limit",
        ),
        *("--script", "--same", "--storage", "--store"),
    ]
    assert "--goal" not in completions("digits --goal max acc --")
    assert completions("digits --scheduler a") == ["asha", "all"]
    assert completions("--goal ") == ["max", "min"]
    assert completions("--goal max ") == []
    assert completions("--seed ") == []
    assert "--plan" in completions("--goal max acc ")
    assert completions_comment("st") == ["steps: ", "strategy: ", "storage: ", "store: "]
    assert completions_comment("scheduler: h") == ["hyperband"]


@pytest.mark.parametrize(("given", "meant"), [("5", 5), ("30s", 30.0), ("1h30m", 5400.0)])
def test_checkpoints_are_asked_for_by_steps_or_by_time(given, meant):
    every = parse(f"--save-every {given}").save_every
    assert (every, type(every)) == (meant, type(meant))


@pytest.mark.parametrize("given", ["0", "0m", "-3", "often", "5 epochs"])
def test_other_periods_are_refused_with_both_forms(given):
    with pytest.raises(
        BadOption, match=r"--save-every .*: expected a number of steps, or a time.*--save-every 5 or 10m"
    ):
        parse(f"--save-every '{given}'")


def test_how_much_data_is_kept_is_a_size_or_off():
    sizes = {"50MB": 50_000_000, "off": 0, "0": 0, "200kB": 200_000, "1GB": 10**9, "7": 7}
    sizes |= {"50MiB": 50 * 1024**2, "1.5KiB": 1536}
    assert {text: parse(f"x --keep-data {text}").keep_data for text in sizes} == sizes
    for text in ("much", "2GB", "-1", "50 TB"):
        with pytest.raises(BadOption, match="expected a size with its unit"):
            parse(f"x --keep-data '{text}'")


def test_a_comment_counts_as_often_as_the_option_on_the_line():
    cell = "#| metric: acc=(.*)\n#| metric: loss=(.*)\n"
    assert parse("--script x.py", cell).metrics == ("acc=(.*)", "loss=(.*)")
    assert parse("--script x.py --metric f1=(.*)", cell).metrics == ("f1=(.*)",)
    with pytest.raises(BadOption, match=r"^#\| seed was given twice; expected once") as refused:
        parse("x", "#| seed: 9\n#| seed: 5\n")
    assert refused.value.line == 3


def test_a_module_stands_in_place_of_a_scripts_file():
    assert parse_script(["-m", "a.b", "--goal", "max", "x", "--", "-m", "2"]).script == "-m a.b"
    assert parse("--script -m a.b --goal max x").script == "-m a.b"
    assert parse("--goal max x", "#| script: -m a.b\n--lr 1").script == "-m a.b"
    assert parse("--script -m a.b --goal max x", "--lr 1").words == ("--lr", "1")
    with pytest.raises(BadOption, match="--script was given twice"):
        parse_script(["train.py", "-m", "a.b"])
    with pytest.raises(BadOption, match="needs a value"):
        parse_script(["-m"])
