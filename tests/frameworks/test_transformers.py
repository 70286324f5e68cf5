"""The Trainer of Transformers with one more callback: killed and promoted, it reports the same as undisturbed."""

from __future__ import annotations

import dataclasses
import textwrap

import pytest
from frameworks.driver import Driver, error_of, loaded_alone, run_alone, undisturbed_and_killed

from workbench.records import Scheduler

CELL = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, EarlyStoppingCallback
import workbench.transformers

config = LlamaConfig(
    vocab_size=32, hidden_size=8, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
    attention_dropout=0.2, max_position_embeddings=16,
)
torch.manual_seed(1)
model = LlamaForCausalLM(config)
PREPARE
rows = torch.randint(0, 32, (24, 6))
data = [{"input_ids": row, "labels": row} for row in rows]
arguments = TrainingArguments(
    output_dir="out", OPTIONS, learning_rate=0.01, per_device_train_batch_size=4, report_to="none", use_cpu=True,
    save_strategy="no", disable_tqdm=True, logging_steps=4,
)
trainer = Trainer(
    model, arguments, train_dataset=data, eval_dataset=data[:8],
    callbacks=[CALLBACKSworkbench.transformers.Callback()],
)
trainer.train()
with open("ended", "a") as file:
    file.write(f"{trainer.state.global_step} ")
"""
EPOCHS = 'num_train_epochs=trial.max_steps, eval_strategy="epoch"'
EVALUATIONS = 'max_steps=4 * trial.max_steps, eval_strategy="steps", eval_steps=4'
ADAPTERS = """
from peft import LoraConfig, get_peft_model
model = get_peft_model(model, LoraConfig(r=2, lora_dropout=0.1, target_modules=["q_proj"], task_type="CAUSAL_LM"))
"""


def cell(options: str = EPOCHS, *, prepare: str = "", callbacks: str = "") -> str:
    return CELL.replace("OPTIONS", options).replace("PREPARE", prepare).replace("CALLBACKS", callbacks)


VARIANTS = {
    "epochs": cell(),
    "evaluations inside epochs": cell(EVALUATIONS),
    "gradients accumulated": cell(EPOCHS + ", gradient_accumulation_steps=4"),
    "adapters": cell(prepare=ADAPTERS),
}
LEVELS = (1, 2, 4, 7)
#: What the Trainer's own checkpoint lacks, each in a number that is logged.
HELD = """
from transformers import TrainerCallback

history, best = [], 0.0
model.passes = 0

class Counting(TrainerCallback):
    def __init__(self, heard):
        self.seen, self.heard = 0, heard

    def on_train_begin(self, *args, **named):
        self.seen, self.first = 0, torch.rand(())

    def on_evaluate(self, *args, **named):
        global best
        self.seen += 1
        model.model.layers[0].self_attn.attention_dropout = 0.1 * self.seen
        best = best + 0.5 * self.seen
        self.heard.append(torch.full((), best))

class Averaging(Trainer):
    mean = 0.0

    def training_step(self, *args, **named):
        loss = super().training_step(*args, **named)
        model.passes += 1
        self.mean = 0.9 * self.mean + 0.1 * loss.item()
        return loss

    def log(self, logs, *more):
        held = {"seen": counting.seen, "best": best, "kept": float(sum(history)), "passes": model.passes}
        super().log({**logs, **held, "mean": self.mean}, *more)

counting = Counting(history)
"""


def _held(options: str = EPOCHS) -> str:
    text = cell(options, prepare=HELD, callbacks="counting, ")
    # Its callbacks come after Workbench's.
    text = text.replace("counting, workbench.transformers.Callback()", "workbench.transformers.Callback(), counting")
    return text.replace("trainer = Trainer(", "trainer = Averaging(")


HOLDING = {
    "names of the cell": _held(),
    "mixed precision": _held(EPOCHS + ", bf16=True"),
    "names of a function": "def main():\n    global history, best, counting, model\n"
    + textwrap.indent(_held(), "    ")
    + "\nmain()\n",
}


@pytest.mark.parametrize("name", HOLDING)
def test_what_its_checkpoint_lacks_is_there_after_a_resume(server, experiment, name):
    calm = Driver(server, experiment(HOLDING[name], steps=5, goal="min eval_loss")).run(5)
    resumed = Driver(server, experiment(HOLDING[name], steps=5, goal="min eval_loss")).run(1, 3, 4, 5)
    assert {name for name, _ in calm.values} > {"seen", "best", "kept", "passes", "mean"}
    assert resumed.began == [0, 1, 3, 4]
    assert resumed.values == calm.values
    assert resumed.says == []


def test_a_trial_loads_with_what_its_checkpoint_lacks(server, experiment, tmp_path):
    both = [experiment(_held(options), steps=3, goal="min eval_loss") for options in (EPOCHS, EVALUATIONS)]
    for made in both:
        Driver(server, made).run(1, 3)
    ended = (tmp_path / "ended").read_text()
    assert loaded_alone(both, "len(loaded.history), loaded.counting.seen", 1, 3) == 2 * ["(1, 1)", "(3, 3)"]
    assert (tmp_path / "ended").read_text() == ended  # the code after it has not run


@pytest.mark.parametrize("variant", VARIANTS)
def test_killed_and_promoted_it_reports_what_an_undisturbed_run_reports(server, experiment, tmp_path, variant):
    def make():
        return experiment(VARIANTS[variant], steps=7, goal="min eval_loss")

    calm, wild = undisturbed_and_killed(server, make, LEVELS, len(variant))
    assert {step for name, step in calm.values if name == "eval_loss"} == set(range(1, 8))
    assert {name for name, _ in calm.values} == {"eval_loss", "loss", "grad_norm", "learning_rate"}
    assert wild.values == calm.values
    assert wild.outcomes[-1] == "completed"
    assert len(set((tmp_path / "ended").read_text().split())) == 1
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("variant", ["epochs", "evaluations inside epochs"])
def test_after_its_last_step_it_takes_no_further_one_unless_it_was_extended(server, experiment, tmp_path, variant):
    made = experiment(VARIANTS[variant], steps=4, goal="min eval_loss")
    driver = Driver(server, made).run(4).run(4)  # killed before it could say that it was over
    (last,) = set((tmp_path / "ended").read_text().split())
    assert driver.began == [0, 4]
    made.spec = dataclasses.replace(made.spec, scheduler=Scheduler("all", 1, 6))
    driver.run(6)
    assert {step for _, step in driver.values} == {1, 2, 3, 4, 5, 6}
    assert (tmp_path / "ended").read_text().split() == [last, last, str(int(last) // 4 * 6)]


def test_one_that_stops_early_ends_at_the_same_epoch(server, experiment):
    early = cell(
        EPOCHS + ', metric_for_best_model="eval_loss"',
        callbacks="EarlyStoppingCallback(2, early_stopping_threshold=100.0), ",
    )
    calm, wild = undisturbed_and_killed(
        server, lambda: experiment(early, steps=7, goal="min eval_loss"), (1, 2, 3, 7), 5
    )
    assert max(step for _, step in calm.values) == 3
    assert wild.values == calm.values


def test_promoted_at_once_it_continues_in_its_process(server, experiment):
    calm = Driver(server, experiment(cell(), steps=7, goal="min eval_loss")).run(7)
    quick = Driver(server, experiment(cell(), steps=7, goal="min eval_loss")).run(*LEVELS, in_place=True)
    assert quick.values == calm.values
    assert quick.runners == 1


def test_of_a_model_with_adapters_only_these_are_saved(server, experiment):
    made = experiment(cell(prepare=ADAPTERS), steps=2, goal="min eval_loss")
    Driver(server, made).run(1, 2)
    (kept,) = (made.paths().checkpoints / "step-00000002" / "saved").glob("checkpoint-*")
    assert (kept / "adapter_model.safetensors").exists()
    assert not (kept / "model.safetensors").exists()


def test_a_length_that_is_not_the_trials_is_refused(server, experiment):
    says = error_of(server, experiment(cell("num_train_epochs=5"), steps=7))
    assert "TrainingArguments(num_train_epochs=5) trains 5 steps, but a trial of this experiment has 7" in says


def test_a_callback_that_is_added_late_is_refused(server, experiment):
    late = cell().replace("callbacks=[workbench.transformers.Callback()],", "")
    late = late.replace("trainer.train()", "trainer.add_callback(workbench.transformers.Callback())\ntrainer.train()")
    assert "added to a Trainer that exists already" in error_of(server, experiment(late, steps=7))


def test_without_workbench_the_code_trains_all_its_epochs_and_prints_them(tmp_path):
    printed = run_alone(cell(), tmp_path)
    assert [line.split(":")[0] for line in printed if line.startswith("step ")] == ["step 1", "step 2", "step 3"]
    assert (tmp_path / "ended").read_text() == "18 "
