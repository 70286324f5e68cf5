"""Which reported values are sums over a rank's part, by the text of the training code."""

from __future__ import annotations

import textwrap

import pytest

from workbench.trial.ranks.reduce import total
from workbench.trial.ranks.totals import remarks, totals

HEAD = """
for epoch in trial.steps(3):
    running = correct = count = 0
    losses = []
    for i, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        opt.zero_grad()
        out = model(x)
        loss = criterion(out, y)
        loss.backward()
        opt.step()
"""


def found(body, report, head=HEAD, names=("loader", "valid")):
    text = head + textwrap.indent(body, " " * 8) + f"\n    trial.report({report})\n"
    return totals(text, names)


SUMS = {
    "by len of the data set": ("running += loss.item() * len(x)", "loss=running / len(loader.dataset)"),
    "by a number": ("running += x.size(0) * loss.item()", "loss=running / 50000"),
    "by shape": ("bs = x.shape[0]\nrunning += loss.item() * bs", "loss=running / len(train_set)"),
    "without +=": ("running = running + loss.detach() * len(y)", "loss=(running / len(loader.sampler)).item()"),
    "correct ones": ("correct += (out.argmax(1) == y).sum().item()", "loss=100.0 * correct / len(loader.dataset)"),
    "by eq": (
        "pred = out.argmax(dim=1, keepdim=True)\ncorrect += pred.eq(y.view_as(pred)).sum().item()",
        "loss=correct / len(loader.dataset)",
    ),
    "by torch.sum": (
        "_, pred = torch.max(out, 1)\ncorrect += torch.sum(pred == y.data)",
        "loss=float(correct) / len(loader.dataset)",
    ),
    "by type": ("correct += (out.argmax(1) == y).type(torch.float).sum().item()", "loss=correct / size"),
    "a list": ("losses.append(loss.item() * len(x))", "loss=sum(losses) / len(loader.dataset)"),
    "a sum loss": (
        "running += F.cross_entropy(out, y, reduction='sum').item()",
        "{'loss': round(running / len(loader.dataset), 4)}",
    ),
    "a count": ("count += len(x)", "loss=count"),
    "mean of hits": ("correct += (out.argmax(1) == y).float().mean().item() * len(x)", "loss=correct / len(data)"),
}


@pytest.mark.parametrize("form", SUMS)
def test_a_sum_over_samples_is_a_total(form):
    assert found(*SUMS[form]).names == {"loss"}


MEANS = {
    "by batches": ("running += loss.item()", "loss=running / len(loader)"),
    "by samples counted": ("running += loss.item() * len(x)\ncount += len(x)", "loss=running / count"),
    "guarded": ("running += loss.item() * len(x)\ncount += y.size(0)", "loss=running / max(count, 1)"),
    "batch means by len of the data set": ("running += loss.item()", "loss=running / len(loader.dataset)"),
    "by the loader's batch size": ("running += loss.item() * 8", "loss=running / len(loader.dataset)"),
    "a list": ("losses.append(loss.item())", "loss=sum(losses) / len(losses)"),
    "of NumPy": ("losses.append(loss.item())", "loss=np.mean(losses)"),
    "the last": ("pass", "loss=loss.item()"),
    "a meter": ("meter.update(loss.item(), len(x))", "loss=meter.avg"),
    "hits counted": ("correct += (out.argmax(1) == y).sum().item()\ncount += y.size(0)", "loss=correct / count"),
    "turns": ("count += 1", "loss=count"),
    "tokens": (
        "running += loss.item() * (y > 0).sum().item()\ncount += (y > 0).sum().item()",
        "loss=running / count",
    ),
    "labels kept": (
        "correct += (out.argmax(1) == y).sum().item()\nlosses.extend(y.tolist())",
        "loss=correct / len(losses)",
    ),
}


@pytest.mark.parametrize("form", MEANS)
def test_a_mean_is_none(form):
    one = found(*MEANS[form])
    assert one.names == set()
    assert not one.unsure


UNSURE = {
    "a root": ("running += loss.item() * len(x)", "loss=(running / len(loader.dataset)) ** 0.5"),
    "a rest": ("correct += (out.argmax(1) == y).sum().item()", "loss=1 - correct / len(loader.dataset)"),
    "a sum of what is unknown": ("running += per_sample(out, y).sum().item()", "loss=running / len(loader.dataset)"),
    "a meter's count": (
        "meter.update(len(x))\nrunning += loss.item() * len(x)",
        "loss=running / meter.count",
    ),
    "a branch": ("if big:\n    running += loss.item() * len(x)", "loss=running / len(loader.dataset)"),
}


@pytest.mark.parametrize("form", UNSURE)
def test_a_doubt_is_remarked(form):
    one = found(*UNSURE[form])
    assert one.names == set()
    assert "reports loss, which may be a sum over a rank's part of the data" in remarks(one)[0]


def test_evaluations_are_no_sums():
    body = """
model.eval()
running = correct = 0
with torch.no_grad():
    for x, y in valid:
        running += criterion(model(x), y).item() * len(x)
        correct += (model(x).argmax(1) == y).sum().item()
"""
    text = HEAD + textwrap.indent(body, "    ") + "    trial.report(loss=running / len(valid.dataset), acc=correct)\n"
    assert totals(text, ("loader", "valid")) == totals("", ())
    assert totals(text, ()) == totals("", ())


def test_batches_by_hand_are_no_sums():
    assert found(*SUMS["by len of the data set"], names=()).names == set()


FUNCTIONS = """
def train(model, loader, opt):
    running, correct = 0.0, 0
    for x, y in tqdm(loader, desc="train"):
        out = model(x)
        loss = loss_of(out, y)
        loss.backward()
        opt.step()
        running += loss.item() * x.size(0)
        correct += (out.argmax(1) == y).sum().item()
    return running / len(loader.dataset), correct / len(loader.dataset)

@torch.no_grad()
def test(model, loader):
    running = 0.0
    for x, y in loader:
        running += loss_of(model(x), y).item() * x.size(0)
    return running / len(loader.dataset)
"""


def test_functions_are_followed():
    text = FUNCTIONS + (
        "train_loader = DataLoader(data)\n"
        "for epoch in trial.steps(3):\n"
        "    loss, acc = train(model, train_loader, opt)\n"
        "    val = test(model, other)\n"
        "    trial.report(val=val, loss=loss, acc=acc)\n"
    )
    assert totals(text, ("other",)).names == {"loss", "acc"}
    assert not totals(text, ("other",)).unsure


def test_the_function_form_is_read():
    text = FUNCTIONS + (
        "def run(trial):\n"
        "    some = DataLoader(data)\n"
        "    for _ in trial.steps(3):\n"
        "        loss, _ = train(model, some, opt)\n"
        "        trial.report(loss=loss, val=test(model, some))\n"
    )
    assert totals(text, ()).names == {"loss"}


def test_one_function_for_both_is_a_doubt():
    text = """
def run(model, loader, train):
    running = count = hits = 0
    for x, y in loader:
        with torch.set_grad_enabled(train):
            loss = loss_of(model(x), y)
            if train:
                loss.backward()
        running += loss.item() * x.size(0)
        count += len(x)
        hits += (model(x) == y).sum().item()
    return running / len(loader.dataset), hits / count

for _ in trial.steps(3):
    a, b = run(model, loader, True)
    c, d = run(model, valid, False)
    trial.report(a=a, b=b, c=c, d=d)
"""
    assert totals(text, ("loader", "valid")).names == set()
    assert set(totals(text, ("loader", "valid")).unsure) == {"a", "c"}


def test_totals_are_added_up():
    assert total([(2, 0, 0.5), (3, 0, 0.25)]) == 0.75


def test_repeated_samples_do_not_count():
    assert total([(4, 0, 4.0), (3, 1, 4.0)]) == 7.0


def test_without_split_loaders_a_total_is_the_same_on_all_ranks():
    assert total([(0, 0, 0.5), (0, 0, 0.5)]) == 0.5
