"""A trainer of TRL with the callback for Transformers: killed and promoted, it reports the same as undisturbed."""

from __future__ import annotations

from frameworks.driver import undisturbed_and_killed

CELL = """
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer
import workbench.transformers

words = {f"w{n}": n for n in range(30)} | {"<eos>": 30, "<pad>": 31}
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="w0")), eos_token="<eos>", pad_token="<pad>"
)
model = LlamaForCausalLM(LlamaConfig(
    vocab_size=32, hidden_size=8, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
    attention_dropout=0.2, pad_token_id=31, eos_token_id=30,
))
data = Dataset.from_dict({"input_ids": torch.randint(0, 30, (24, 6)).tolist()})
arguments = SFTConfig(
    output_dir="out", num_train_epochs=trial.max_steps, eval_strategy="epoch", save_strategy="no", report_to="none",
    use_cpu=True, bf16=False, disable_tqdm=True, logging_steps=4, per_device_train_batch_size=4, learning_rate=0.01,
)
trainer = SFTTrainer(
    model, arguments, train_dataset=data, eval_dataset=data, processing_class=tokenizer,
    callbacks=[workbench.transformers.Callback()],
)
trainer.train()
"""


def test_killed_and_promoted_it_reports_what_an_undisturbed_run_reports(server, experiment):
    calm, wild = undisturbed_and_killed(server, lambda: experiment(CELL, steps=5, goal="min eval_loss"), (1, 2, 5), 3)
    assert {step for name, step in calm.values if name == "eval_loss"} == {1, 2, 3, 4, 5}
    assert calm.values.keys() >= {("num_tokens", 5), ("entropy", 5), ("eval_mean_token_accuracy", 5)}
    assert wild.values == calm.values
