"""A command of click's with a sub-command for training; rich in options, as MLOps templates are."""
import json
from pathlib import Path

import click
import numpy as np
import torch
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from torch import nn


@click.group()
@click.option("--seed", default=0, show_default=True, help="Seed of everything.")
@click.pass_context
def cli(ctx, seed):
    ctx.ensure_object(dict)
    ctx.obj["seed"] = seed
    np.random.seed(seed)
    torch.manual_seed(seed)


@cli.command()
@click.option("--lr", default=0.02, type=click.FloatRange(0, 1, min_open=True))
@click.option("--hidden", default=16, type=int)
@click.option("--optimizer", "name", default="adam", type=click.Choice(["adam", "sgd"]))
@click.option("--epochs", default=6, type=int)
@click.option("--bias/--no-bias", default=True)
@click.option("--out", default="out", type=click.Path(file_okay=False, path_type=Path))
@click.pass_context
def train(ctx, lr, hidden, name, epochs, bias, out):
    """Train on the wine data and write metrics.json."""
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    X_tr, X_te, y_tr, y_te = train_test_split(X, y, random_state=ctx.obj["seed"])
    X_tr, X_te = torch.tensor(X_tr).float(), torch.tensor(X_te).float()
    y_tr, y_te = torch.tensor(y_tr), torch.tensor(y_te)
    model = nn.Sequential(nn.Linear(13, hidden, bias=bias), nn.Dropout(0.2), nn.ReLU(), nn.Linear(hidden, 3))
    optimizer = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[name](model.parameters(), lr=lr)
    metrics = []
    for epoch in range(epochs):
        model.train()
        order = np.random.permutation(len(X_tr))
        for part in np.array_split(order, 6):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(X_tr[part]), y_tr[part])
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            accuracy = (model(X_te).argmax(1) == y_te).float().mean().item()
        metrics.append({"epoch": epoch, "loss": loss.item(), "accuracy": accuracy})
        click.echo(f"epoch {epoch} loss {loss.item():.4f} " + click.style(f"accuracy {accuracy:.4f}", fg="green"))
    out.mkdir(parents=True, exist_ok=True)
    (out / "metrics.json").write_text(json.dumps(metrics, indent=1))
    torch.save(model.state_dict(), out / "model.pt")


if __name__ == "__main__":
    cli(obj={})
