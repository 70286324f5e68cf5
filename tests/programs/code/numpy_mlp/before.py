"""A network of two layers in plain NumPy, backpropagation by hand, with Adam."""
import numpy as np
from sklearn.datasets import load_digits

np.random.seed(0)
X, y = load_digits(return_X_y=True)
X, T = X[:900] / 16.0, np.eye(10)[y[:900]]
X_train, X_val, T_train, T_val = X[:600], X[600:], T[:600], T[600:]

sizes = [64, 32, 10]
params = {}
for i, (n_in, n_out) in enumerate(zip(sizes, sizes[1:])):
    params[f"W{i}"] = np.random.randn(n_in, n_out) * np.sqrt(2.0 / n_in)
    params[f"b{i}"] = np.zeros(n_out)
m = {k: np.zeros_like(v) for k, v in params.items()}
v = {k: np.zeros_like(w) for k, w in params.items()}
t = 0


def forward(x):
    h = np.maximum(0, x @ params["W0"] + params["b0"])
    z = h @ params["W1"] + params["b1"]
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return h, e / e.sum(axis=1, keepdims=True)


def gradients(x, target):
    h, p = forward(x)
    dz = (p - target) / len(x)
    dh = (dz @ params["W1"].T) * (h > 0)
    return {"W1": h.T @ dz, "b1": dz.sum(0), "W0": x.T @ dh, "b0": dh.sum(0)}


def adam(grads, lr=5e-3, b1=0.9, b2=0.999, eps=1e-8):
    global t
    t += 1
    for k, g in grads.items():
        m[k] = b1 * m[k] + (1 - b1) * g
        v[k] = b2 * v[k] + (1 - b2) * g ** 2
        params[k] -= lr * (m[k] / (1 - b1 ** t)) / (np.sqrt(v[k] / (1 - b2 ** t)) + eps)


for epoch in range(6):
    order = np.random.permutation(len(X_train))
    for start in range(0, len(order), 50):
        rows = order[start:start + 50]
        adam(gradients(X_train[rows], T_train[rows]))
    _, p = forward(X_val)
    loss = -np.log((p * T_val).sum(axis=1) + 1e-12).mean()
    acc = (p.argmax(1) == T_val.argmax(1)).mean()
    print(f"epoch {epoch}: loss={loss:.6f} acc={acc:.4f}")

np.savez("mlp.npz", **params)
