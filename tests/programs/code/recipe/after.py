"""A recipe: a class that sets up, trains and saves, configured by YAML with `key=value` on the command line."""
import functools
import importlib
import math
import os
import sys
from argparse import ArgumentParser

import torch
from omegaconf import DictConfig, OmegaConf
from torch import nn
from torch.utils.data import DataLoader, Dataset
from workbench import trial

TEXT = "the quick brown fox jumps over the lazy dog while five wizards pack my box with a dozen liquor jugs. " * 6
LETTERS = sorted(set(TEXT))
PRECISIONS = {"bf16": torch.bfloat16, "fp32": torch.float32}


def parse(recipe_main):
    """Give a recipe its configuration: the file of --config, changed by the words that follow."""

    @functools.wraps(recipe_main)
    def wrapper():
        parser = ArgumentParser(description=recipe_main.__doc__)
        parser.add_argument("--config", default=os.path.join(os.path.dirname(__file__), "conf", "decoder.yaml"))
        known, overrides = parser.parse_known_args()
        cfg = OmegaConf.merge(OmegaConf.load(known.config), OmegaConf.from_dotlist(overrides))
        sys.exit(recipe_main(cfg))

    return wrapper


def instantiate(node: DictConfig, *args, **kwargs):
    module, _, name = node["_component_"].rpartition(".")
    given = {key: value for key, value in node.items() if key != "_component_"}
    return getattr(importlib.import_module(module), name)(*args, **given, **kwargs)


class Decoder(nn.Module):
    def __init__(self, dim, num_heads, num_layers, dropout):
        super().__init__()
        self.tok_embeddings = nn.Embedding(len(LETTERS), dim)
        layer = nn.TransformerEncoderLayer(dim, num_heads, 2 * dim, dropout, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, num_layers, enable_nested_tensor=False)
        self.norm, self.output = nn.RMSNorm(dim), nn.Linear(dim, len(LETTERS))

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.output(self.norm(self.layers(self.tok_embeddings(tokens), mask=mask, is_causal=True)))


def decoder(dim, num_heads, num_layers, dropout):
    return Decoder(dim, num_heads, num_layers, dropout)


class Lines(Dataset):
    def __init__(self, text, length=16):
        self.tokens = torch.tensor([LETTERS.index(letter) for letter in text])
        self.length = length

    def __len__(self):
        return (len(self.tokens) - 1) // self.length

    def __getitem__(self, at):
        start = at * self.length
        return {"tokens": self.tokens[start : start + self.length], "labels": self.tokens[start + 1 :][: self.length]}


class DiskLogger:
    def __init__(self, filename):
        os.makedirs(os.path.dirname(filename), exist_ok=True)
        self.filename = filename

    def log_dict(self, payload, step):
        with open(self.filename, "a") as file:
            file.write(f"Step {step} | " + " ".join(f"{name}:{value}" for name, value in payload.items()) + "\n")


def get_cosine_schedule_with_warmup(optimizer, num_warmup_steps, num_training_steps):
    def lr_lambda(step):
        if step < num_warmup_steps:
            return step / max(1, num_warmup_steps)
        progress = (step - num_warmup_steps) / max(1, num_training_steps - num_warmup_steps)
        return max(0.0, 0.5 * (1.0 + math.cos(math.pi * progress)))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda)


class FullFinetuneRecipe:
    def __init__(self, cfg: DictConfig) -> None:
        self.seed, self.total_epochs = cfg.seed, cfg.epochs
        self.epochs_run = self.global_step = 0
        self._output_dir, self._dtype = cfg.output_dir, PRECISIONS[cfg.dtype]
        self._accumulate, self._clip_grad_norm = cfg.gradient_accumulation_steps, cfg.clip_grad_norm

    def setup(self, cfg: DictConfig) -> None:
        torch.manual_seed(self.seed)
        self._metric_logger = instantiate(cfg.metric_logger)
        self._model = instantiate(cfg.model)
        self._optimizer = instantiate(cfg.optimizer, self._model.parameters())
        self._loss_fn = instantiate(cfg.loss)
        part = len(TEXT) * 5 // 6
        self._dataloader = DataLoader(Lines(TEXT[:part]), cfg.batch_size, shuffle=True, drop_last=True)
        self._validation = DataLoader(Lines(TEXT[part:]), cfg.batch_size)
        self._steps_per_epoch = max(1, len(self._dataloader) // self._accumulate)
        total = self.total_epochs * self._steps_per_epoch
        self._lr_scheduler = get_cosine_schedule_with_warmup(self._optimizer, cfg.lr_scheduler.num_warmup_steps, total)

    def _loss_step(self, batch):
        with torch.autocast("cpu", self._dtype, enabled=self._dtype is not torch.float32):
            logits = self._model(batch["tokens"])
        return self._loss_fn(logits.float().flatten(0, 1), batch["labels"].flatten())

    @torch.no_grad()
    def validate(self) -> float:
        self._model.eval()
        losses = [self._loss_step(batch).item() for batch in self._validation]
        self._model.train()
        return sum(losses) / len(losses)

    def train(self) -> None:
        self._optimizer.zero_grad()
        running_loss, num_tokens = 0.0, 0
        for curr_epoch in trial.steps():
            for idx, batch in enumerate(self._dataloader):
                num_tokens += batch["tokens"].numel()
                loss = self._loss_step(batch) / self._accumulate
                running_loss += loss.detach()
                loss.backward()
                if (idx + 1) % self._accumulate == 0:
                    grad_norm = nn.utils.clip_grad_norm_(self._model.parameters(), self._clip_grad_norm)
                    self._optimizer.step()
                    self._optimizer.zero_grad(set_to_none=True)
                    self._lr_scheduler.step()
                    self.global_step += 1
                    lr = self._optimizer.param_groups[0]["lr"]
                    log_dict = {"loss": running_loss.item(), "lr": lr, "grad_norm": float(grad_norm), "n": num_tokens}
                    self._metric_logger.log_dict(log_dict, step=self.global_step)
                    running_loss, num_tokens = 0.0, 0
            self.epochs_run += 1
            val_loss = self.validate()
            self._metric_logger.log_dict({"val_loss": val_loss}, step=self.global_step)
            self.save_checkpoint(epoch=curr_epoch)
            trial.report(val_loss=val_loss)

    def save_checkpoint(self, epoch: int) -> None:
        state = {"model": self._model.state_dict()}
        if epoch + 1 < self.total_epochs:
            state |= {"optimizer": self._optimizer.state_dict(), "epochs_run": self.epochs_run, "seed": self.seed}
        torch.save(state, os.path.join(self._output_dir, f"epoch_{epoch}.pt"))


@parse
def recipe_main(cfg: DictConfig) -> None:
    print(OmegaConf.to_yaml(cfg, resolve=True))
    recipe = FullFinetuneRecipe(cfg=cfg)
    recipe.setup(cfg=cfg)
    recipe.train()


if __name__ == "__main__":
    recipe_main()
