"""Automatic mixed precision after PyTorch's recipe; bfloat16 on the CPU, with the scaler that the GPU would need."""
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(8)
device = "cuda" if torch.cuda.is_available() else "cpu"
use_amp = True
digits = load_digits()
X, Y = torch.tensor(digits.data / 16).float(), torch.tensor(digits.target)
loader = DataLoader(TensorDataset(X[:512], Y[:512]), batch_size=64, shuffle=True, pin_memory=device == "cuda")
X_val, Y_val = X[512:712].to(device), Y[512:712].to(device)

net = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.SiLU(), nn.Dropout(0.2), nn.Linear(64, 10)).to(device)
loss_fn = nn.CrossEntropyLoss()
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
scaler = torch.amp.GradScaler(device, init_scale=2.0**12, growth_interval=10, enabled=use_amp)
sched = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, T_0=3)

for epoch in range(6):
    net.train()
    for i, (x, y) in enumerate(loader):
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        with torch.autocast(device_type=device, dtype=torch.bfloat16, enabled=use_amp):
            loss = loss_fn(net(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        torch.nn.utils.clip_grad_norm_(net.parameters(), max_norm=1.0)
        scaler.step(opt)
        scaler.update()
        opt.zero_grad(set_to_none=True)
        sched.step(epoch + i / len(loader))
    net.eval()
    with torch.inference_mode(), torch.autocast(device_type=device, dtype=torch.bfloat16, enabled=use_amp):
        logits = net(X_val)
        acc = (logits.argmax(1) == Y_val).float().mean().item()
    print(f"epoch {epoch}  loss {loss.item():.4f}  val acc {acc:.4f}  scale {scaler.get_scale():.0f}")

torch.save({"net": net.state_dict(), "scaler": scaler.state_dict()}, "amp.pt")
