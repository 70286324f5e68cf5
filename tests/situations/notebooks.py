"""Ten notebooks as people write them: files and cells. The last cell trains, and its score shows what it used."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Situation:
    """A notebook: its files, the cells before the train cell, and the train cell's body.

    later: files that are edited after training; what they held then was copied, so a replay does not see it.
    """

    name: str
    cells: tuple[str, ...]
    train: str
    files: dict[str, str] = field(default_factory=dict)
    later: dict[str, str] = field(default_factory=dict)
    folder: str = "."

    @property
    def sources(self) -> list[str]:
        """The notebook's cells, in order."""
        line = f"%%train {self.name} --goal max score --scheduler asha --steps 1-4 --eta 2 --trials 3 --verify off"
        return ["%load_ext workbench", *self.cells, f"{line}\n{self.train}".rstrip()]


LOOP = Situation(
    "training loop in the cell",
    (
        "import torch\nfrom torch import nn\ntorch.set_num_threads(1)",
        "x = torch.linspace(-1, 1, 32).reshape(16, 2)\ny = x.prod(1, keepdim=True).sign()",
        (
            "class Net(nn.Module):\n"
            "    def __init__(self, hidden):\n"
            "        super().__init__()\n"
            "        self.body = nn.Sequential(nn.Linear(2, hidden), nn.Dropout(0.2), nn.Linear(hidden, 1))\n"
            "    def forward(self, x):\n"
            "        return self.body(x)"
        ),
    ),
    """lr = loguniform(1e-3, 0.3)
hidden = choice(4, 8)
net = Net(hidden)
optimizer = torch.optim.Adam(net.parameters(), lr=lr)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=4, shuffle=True)
for epoch in trial.steps():
    for batch, target in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(batch), target)
        loss.backward()
        optimizer.step()
    trial.report(score=-loss.item())
""",
)

MODULES = Situation(
    "functions in modules",
    ("import numpy as np\nimport steps\nfrom metrics import distance as far", "rng_seed = 7"),
    """lr = uniform(0.01, 0.5)
rng = np.random.default_rng(rng_seed)
weights = np.zeros(3)
for epoch in trial.steps():
    weights = steps.descend(weights, lr, rng)
    trial.report(score=-far(weights))
""",
    files={
        "steps.py": "from metrics import TARGET\n\ndef descend(weights, lr, rng):\n"
        "    return weights - lr * (weights - TARGET + rng.normal(size=3) / 10)\n",
        "metrics.py": "import numpy as np\n\nTARGET = np.array([1.0, -2.0, 0.5])\n\n"
        "def distance(weights):\n    return float(np.abs(weights - TARGET).sum())\n",
    },
    later={"metrics.py": "raise RuntimeError('the working tree of today')\n", "steps.py": "descend = None\n"},
)

GENERATORS = Situation(
    "generators",
    (
        "import itertools, random",
        "def numbers(seed):\n    state = random.Random(seed)\n    while True:\n        yield state.random()",
        (
            "def batches(seed, size, count):\n"
            "    stream = numbers(seed)\n"
            "    for _ in range(count):\n"
            "        yield list(itertools.islice(stream, size))"
        ),
        "preview = next(batches(0, 2, 1))\nlengths = (len(batch) for batch in batches(0, 2, 3))\nlist(lengths)",
    ),
    """rate = uniform(0.1, 0.9)
size = choice(2, 4)
mean = 0.0
for epoch in trial.steps():
    for batch in batches(epoch, size, 3):
        mean += rate * (sum(batch) / len(batch) - mean)
    trial.report(score=mean)
""",
)

PIPELINE = Situation(
    "pandas pipelines",
    (
        "import numpy as np\nimport pandas as pd",
        "raw = pd.read_csv('houses.csv', parse_dates=['sold'])",
        (
            "def features(frame):\n"
            "    return (frame.assign(age=lambda f: 2026 - f.built, month=lambda f: f.sold.dt.month)\n"
            "            .query('area > 20')\n"
            "            .pipe(lambda f: f.join(f.groupby('town').price.transform('mean').rename('level'))))"
        ),
        (
            "table = features(raw)\ncolumns = ['area', 'age', 'month', 'level']\n"
            "scaled = (table[columns] - table[columns].mean()) / table[columns].std()"
        ),
        "table.groupby('town').price.agg(['mean', 'size'])",
    ),
    """ridge = loguniform(1e-3, 10)
prices = table.price.to_numpy() / 1000
for epoch in trial.steps():
    rows = scaled.sample(frac=0.8, random_state=epoch).index
    train = scaled.loc[rows].to_numpy()
    weights = np.linalg.solve(train.T @ train + ridge * np.eye(4), train.T @ table.price.loc[rows].to_numpy() / 1000)
    trial.report(score=-float(np.abs(scaled.to_numpy() @ weights - prices).mean()))
""",
    files={
        "houses.csv": "town,area,built,sold,price\n"
        + "".join(
            f"{'abc'[k % 3]},{18 + 7 * k},{1950 + 3 * k},2025-{k % 12 + 1:02}-11,{90000 + 2500 * k + 4000 * (k % 3)}\n"
            for k in range(20)
        )
    },
)

PACKAGE = Situation(
    "local packages",
    (
        "import sys\nsys.path.insert(0, '../src')",
        "from shop.models import Model\nfrom shop import SETTINGS",
        "%load_ext autoreload\n%autoreload 2",
    ),
    """lr = uniform(0.1, 0.9)
model = Model(**SETTINGS)
for epoch in trial.steps():
    trial.report(score=model.fit(lr))
""",
    files={
        "../src/shop/__init__.py": "from .settings import SETTINGS\n",
        "../src/shop/settings.py": "import json\nfrom pathlib import Path\n"
        "SETTINGS = json.loads((Path(__file__).parent / 'settings.json').read_text())\n",
        "../src/shop/settings.json": '{"target": 3.0, "start": 0.5}',
        "../src/shop/models/__init__.py": "from .linear import Model\n",
        "../src/shop/models/linear.py": "import random\nfrom ..tools import clip\n\nclass Model:\n"
        "    def __init__(self, target, start):\n        self.target, self.value = target, start\n"
        "    def fit(self, lr):\n        self.value += lr * clip(self.target - self.value) + random.gauss(0, 0.01)\n"
        "        return -abs(self.target - self.value)\n",
        "../src/shop/tools.py": "def clip(value, most=1.0):\n    return max(-most, min(most, value))\n",
    },
    later={"../src/shop/tools.py": "def clip(value):\n    return 0.0\n"},
    folder="notebooks",
)

PATHS = Situation(
    "relative data paths",
    (
        "import csv\nimport numpy as np\nfrom pathlib import Path",
        "DATA = Path('data')\nnp.save(DATA / 'offsets.npy', np.arange(3) / 10)",
        "with open('data/points.csv') as file:\n    points = [(float(a), float(b)) for a, b in csv.reader(file)]",
    ),
    """slope = uniform(0.5, 2.5)
offsets = np.load("data/offsets.npy", mmap_mode="r")
weight = float(open("../weight.txt").read())
for epoch in trial.steps():
    noise = np.random.normal(0, 0.01)
    error = sum(abs(b - slope * a - offsets[epoch % 3]) for a, b in points)
    trial.report(score=-(error * weight + noise))
""",
    files={"data/points.csv": "".join(f"{k},{1.7 * k}\n" for k in range(6)), "../weight.txt": "0.25\n"},
    folder="notebooks",
)

RUN = Situation(
    "%run",
    ("%run prepare.py 3", "%run -i more.py", "print(scale, len(samples))"),
    """gain = uniform(0.0, 2.0)
total = 0.0
for epoch in trial.steps():
    total += shrink(samples[epoch % len(samples)] * gain)
    trial.report(score=-abs(total - scale))
""",
    files={
        "prepare.py": "import random\nimport sys\n\nrandom.seed(int(sys.argv[1]))\n"
        "samples = [random.random() for _ in range(5)]\n\n"
        "def shrink(value):\n    return value * FACTOR\n\nFACTOR = 0.5\n\n"
        "if __name__ == '__main__':\n    scale = sum(samples) / 2\n",
        "more.py": "samples = sorted(samples)\n",
    },
    later={"prepare.py": "samples = []\n"},
)

PIP = Situation(
    "!pip",
    (
        "!pip --version",
        "%pip list --disable-pip-version-check",
        "where = !{__import__('sys').executable} -m pip --version\nmajor = int(where[0].split()[1].split('.')[0])",
        "%env WORKBENCH_EXAMPLE=1\n!echo $HOME > /dev/null",
    ),
    """x = uniform(0.0, 1.0)
import random
for epoch in trial.steps():
    x = x * 0.9 + random.random() / 10
    trial.report(score=x + (major > 0))
""",
)

ASYNC = Situation(
    "async cells",
    (
        "import asyncio",
        "async def fetch(number):\n    await asyncio.sleep(0)\n    return number ** 0.5",
        "values = await asyncio.gather(*(fetch(number) for number in range(8)))",
        "async with asyncio.timeout(5):\n    first = [await fetch(number) for number in (1, 4)]",
        "async def stream(limit):\n    for number in range(limit):\n        yield await fetch(number)",
        "later = [value async for value in stream(3)]",
    ),
    """rate = uniform(0.1, 0.9)
async def average(rate, start):
    mean = start
    async for value in stream(len(values)):
        mean += rate * (value - mean)
    return mean
mean = sum(first) + sum(later)
for epoch in trial.steps():
    mean = asyncio.run(average(rate, mean))
    trial.report(score=mean)
""",
)

PLOTS = Situation(
    "plots",
    (
        "%matplotlib inline\nimport matplotlib.pyplot as plt\nimport numpy as np\nimport plotly.graph_objects as go",
        "x = np.linspace(0, 6, 50)\nfig, ax = plt.subplots()\nax.plot(x, np.sin(x))\nplt.show()",
        "go.Figure(go.Scatter(x=x, y=np.cos(x)))",
        "plt.hist(np.random.default_rng(0).normal(size=100));",
    ),
    """phase = uniform(0.0, 3.0)
curve = []
for epoch in trial.steps():
    noise = np.random.normal(0, 0.05, size=x.size)
    error = np.abs(np.sin(x) - np.sin(x + phase) + noise).mean()
    curve.append(error)
    fig, ax = plt.subplots()
    ax.plot(curve)
    trial.log(curve=fig)
    plt.close(fig)
    trial.report(score=-error)
plt.plot(curve)
plt.savefig(f"curve-{trial.label}.png")
""",
)

EVERY = (LOOP, MODULES, GENERATORS, PIPELINE, PACKAGE, PATHS, RUN, PIP, ASYNC, PLOTS)
ALL = [dataclasses.replace(one, name=one.name.lstrip("%!").replace(" ", "-")) for one in EVERY]
