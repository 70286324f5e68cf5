"""Loops whose state lies on a GPU. Each ends with ``result()``: what must be the same byte for byte."""

HEAD = """
import torch
from torch import nn
from torch.nn import functional as F
X = torch.randn(96, 3, 8, 8, device="cuda")
Y = (X.mean((1, 2, 3)) > 0).long()
def batches(size=32):
    order = torch.randperm(len(X), device="cuda")
    for at in range(0, len(X), size):
        yield X[order[at:at + size]], Y[order[at:at + size]]
"""

MODEL = """
model = nn.Sequential(
    nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout2d(0.2), nn.Flatten(), nn.Linear(288, 2), nn.Dropout()
).cuda()
opt = torch.optim.AdamW(model.parameters(), lr=0.01)
def result(): return model.state_dict(), opt.state_dict()
"""

EPOCH = """
    for x, y in batches():
        opt.zero_grad(); loss = F.cross_entropy(model(x), y); loss.backward(); opt.step()
"""

LOOP = "for epoch in trial.steps():" + EPOCH + "    trial.report(score=loss)"

#: One step whose work is captured once, and then replayed: its kernels read and write at fixed addresses.
GRAPH = """
model = nn.Sequential(nn.Flatten(), nn.Linear(192, 16), nn.ReLU(), nn.Linear(16, 2)).cuda()
opt = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.01, device="cuda"), capturable=True)
def result(): return model.state_dict(), opt.state_dict()
x, y = X[:32].clone(), Y[:32].clone()
beside = torch.cuda.Stream()
beside.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(beside):
    for _ in range(3):
        opt.zero_grad(); F.cross_entropy(model(x), y).backward(); opt.step()
torch.cuda.current_stream().wait_stream(beside)
captured = torch.cuda.CUDAGraph()
opt.zero_grad()
with torch.cuda.graph(captured):
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    opt.step()
for epoch in trial.steps():
    for at in range(0, 96, 32):
        x.copy_(X[at:at + 32]); y.copy_(Y[at:at + 32])
        captured.replay()
    trial.report(score=loss)"""

#: By name. Those on the default device are :data:`trial.loops.TORCH`'s.
LOOPS = {
    "convolutions with dropout": MODEL + LOOP,
    "a fused optimizer": MODEL.replace("lr=0.01", "lr=0.01, fused=True") + LOOP,
    "channels last": MODEL + "model = model.to(memory_format=torch.channels_last)\n" + LOOP,
    "half precision with a scaler": MODEL
    + """
scaler = torch.amp.GradScaler("cuda")
for epoch in trial.steps():
    for x, y in batches():
        opt.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward(); scaler.step(opt); scaler.update()
    trial.report(score=loss, scale=scaler.get_scale())""",
    "a recurrent net with cuDNN's dropout": """
model = nn.LSTM(24, 16, num_layers=2, dropout=0.5, batch_first=True).cuda()
head = nn.Linear(16, 2).cuda()
opt = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=0.01)
def result(): return model.state_dict(), head.state_dict()
for epoch in trial.steps():
    for x, y in batches():
        opt.zero_grad()
        loss = F.cross_entropy(head(model(x.reshape(len(x), 8, 24))[0][:, -1]), y)
        loss.backward(); opt.step()
    trial.report(score=loss)""",
    "a transformer": """
block = nn.TransformerEncoderLayer(24, 4, 48, dropout=0.1, batch_first=True)
model = nn.TransformerEncoder(block, 2).cuda()
head = nn.Linear(24, 2).cuda()
opt = torch.optim.AdamW([*model.parameters(), *head.parameters()], lr=0.01)
def result(): return model.state_dict(), head.state_dict()
for epoch in trial.steps():
    for x, y in batches():
        opt.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.cross_entropy(head(model(x.reshape(len(x), 8, 24)).mean(1)), y)
        loss.backward(); opt.step()
    trial.report(score=loss)""",
    "generators of its own": MODEL
    + """
own = torch.Generator("cuda").manual_seed(5)
other = torch.Generator("cuda")
other.manual_seed(6)
drawn = []
for epoch in trial.steps():"""
    + EPOCH
    + """
    drawn.append((torch.randn(3, generator=own, device="cuda"), torch.rand(2, generator=other, device="cuda")))
    trial.report(score=loss, own=drawn[-1][0][0], other=drawn[-1][1][0], common=torch.rand(1, device="cuda"))""",
    "pinned memory and workers": MODEL
    + """
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(X.cpu(), Y.cpu())
loader = DataLoader(data, 32, shuffle=True, num_workers=2, pin_memory=True, persistent_workers=True)
for epoch in trial.steps():
    for x, y in loader:
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        opt.zero_grad(); loss = F.cross_entropy(model(x), y); loss.backward(); opt.step()
    trial.report(score=loss)""",
    "a compiled model": MODEL + "compiled = torch.compile(model)\n" + LOOP.replace("model(x)", "compiled(x)"),
    "a captured graph": GRAPH,
    "work on a stream of its own, which nothing waits for": MODEL
    + """
beside = torch.cuda.Stream()
average = torch.zeros(2048, 2048, device="cuda")
square = torch.randn(2048, 2048, device="cuda") / 64
torch.cuda.synchronize()
def result(): return model.state_dict(), average
for epoch in trial.steps():"""
    + EPOCH
    + """
    value = loss.item()
    with torch.cuda.stream(beside):
        for _ in range(200):
            average.add_(square @ square, alpha=0.01).mul_(0.99).add_(value)
    trial.report(score=value)
torch.cuda.synchronize()""",
    "sparse rows and sums in any order": """
table = nn.EmbeddingBag(500, 8, mode="sum", sparse=True).cuda()
head = nn.Linear(8, 2).cuda()
opt = torch.optim.SparseAdam(table.parameters(), lr=0.01)
dense = torch.optim.SGD(head.parameters(), lr=0.1, momentum=0.9)
words = torch.randint(500, (96, 12), device="cuda")
counts = torch.zeros(500, device="cuda")
def result(): return table.state_dict(), head.state_dict(), counts
for epoch in trial.steps():
    for at in range(0, 96, 32):
        opt.zero_grad(); dense.zero_grad()
        loss = F.cross_entropy(head(table(words[at:at + 32])), Y[at:at + 32])
        loss.backward(); opt.step(); dense.step()
        counts.index_add_(0, words[at:at + 32].flatten(), torch.rand(384, device="cuda"))
    trial.report(score=loss, counted=counts.sum())""",
    "memory on both sides": MODEL
    + """
average = {name: value.detach().cpu().pin_memory() for name, value in model.state_dict().items()}
late = None
def result(): return model.state_dict(), average, late
for epoch in trial.steps():"""
    + EPOCH
    + """
    for name, value in model.state_dict().items():
        if value.is_floating_point():
            average[name].mul_(0.9).add_(value.cpu(), alpha=0.1)
    late = late * 0.5 + loss.detach() if late is not None else loss.detach().clone()
    trial.report(score=late)""",
}
