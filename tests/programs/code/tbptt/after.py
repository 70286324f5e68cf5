"""A character-level language model with truncated backpropagation through time: the hidden state is carried on."""
import math

import torch
import torch.nn as nn
from workbench import trial

torch.manual_seed(5)
text = "the quick brown fox jumps over the lazy dog and the dog sleeps while the fox runs on and on. " * 12
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
corpus = torch.tensor([stoi[c] for c in text])

batch_size, bptt = 4, 24


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    return data.narrow(0, 0, nbatch * bsz).view(bsz, -1).t().contiguous()


def get_batch(source, i):
    seq_len = min(bptt, len(source) - 1 - i)
    return source[i:i + seq_len], source[i + 1:i + 1 + seq_len].view(-1)


def repackage_hidden(h):
    """Wraps hidden states in new Tensors, to detach them from their history."""
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


class RNNModel(nn.Module):
    def __init__(self, ntoken, ninp=16, nhid=32):
        super().__init__()
        self.drop = nn.Dropout(0.1)
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.LSTM(ninp, nhid)
        self.decoder = nn.Linear(nhid, ntoken)

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        return weight.new_zeros(1, bsz, 32), weight.new_zeros(1, bsz, 32)

    def forward(self, input, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(input)), hidden)
        return self.decoder(self.drop(output)).flatten(0, 1), hidden


train_data = batchify(corpus, batch_size)
model = RNNModel(len(chars))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=5.0)
hidden = model.init_hidden(batch_size)
position = 0

for step in trial.steps():
    total_loss = 0.0
    for _ in range(5):
        if position >= train_data.size(0) - 1:
            position, hidden = 0, model.init_hidden(batch_size)
        data, targets = get_batch(train_data, position)
        hidden = repackage_hidden(hidden)
        optimizer.zero_grad()
        output, hidden = model(data, hidden)
        loss = criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        total_loss += loss.item()
        position += bptt
    print(f"| step {step} | position {position} | loss {total_loss / 5:.4f} | ppl {math.exp(total_loss / 5):.3f}")
    trial.report(loss=total_loss / 5)

torch.save(model.state_dict(), "lm.pt")
