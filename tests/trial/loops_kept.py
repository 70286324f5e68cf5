"""Loops that change what is easily overlooked: hooks of tensors, buffers in memory, settings, … Each ends with
``result()``, as those of :mod:`trial.loops`."""

from trial.loops import EPOCH, FOOT, HEAD, MODEL

HOOKS = {
    "a hook of a tensor registered in the loop": MODEL
    + """
for epoch in trial.steps():
    if epoch == 1: handle = model[0].weight.register_hook(lambda gradient: gradient * 0.1)
    if epoch == 3: handle.remove()"""
    + EPOCH
    + "    trial.report(score=loss)",
    "a hook of a tensor removed in the loop": MODEL
    + """
handle = model[0].weight.register_hook(lambda gradient: gradient * 0.1)
for epoch in trial.steps():
    if epoch == 1: handle.remove()"""
    + EPOCH
    + "    trial.report(score=loss)",
    "hooks of tensors that count": MODEL
    + """
class Scale:
    def __init__(self): self.n = 0
    def __call__(self, gradient):
        self.n += 1
        return gradient / self.n
def make():
    n = 0
    def hook(gradient):
        nonlocal n
        n += 1
        return gradient / n
    return hook
model[0].weight.register_hook(make())
model[0].bias.register_hook(Scale())
for epoch in trial.steps():"""
    + EPOCH
    + "    trial.report(score=loss)",
    "optimizers that only hooks hold": """
model = nn.Linear(8, 2)
def attach(parameter):
    opt = torch.optim.Adam([parameter], lr=0.01)
    def hook(one):
        opt.step(); opt.zero_grad()
    parameter.register_post_accumulate_grad_hook(hook)
for parameter in model.parameters(): attach(parameter)
def result(): return model.state_dict()
for epoch in trial.steps():
    for x, y in batches():
        loss = F.cross_entropy(model(x), y); loss.backward()
    trial.report(score=loss)""",
    "a new tensor with hooks, and hooks whose handles nobody keeps": MODEL
    + """
scale = None
for epoch in trial.steps():
    if scale is None:
        scale = nn.Parameter(torch.ones(2)); scale.register_hook(lambda gradient: gradient * 0.5)
        other = torch.optim.SGD([scale], lr=0.1)
        scale.register_post_accumulate_grad_hook(lambda one: other.step())
    model[0].register_forward_hook(lambda module, given, out: out * 1.01)
    model[0].weight.register_hook(lambda gradient: gradient * 1.1)
    for x, y in batches():
        opt.zero_grad(); scale.grad = None
        loss = F.cross_entropy(model(x) * scale, y); loss.backward(); opt.step()
    trial.report(score=loss, scale=scale.sum(), hooks=len(model[0]._forward_hooks))""",
}

ALL = {name: HEAD + source + FOOT for name, source in HOOKS.items()}
