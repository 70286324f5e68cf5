"""DQN with a replay buffer and a target network, on a cart-pole written by hand."""
import math
import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn

random.seed(1), np.random.seed(1), torch.manual_seed(1)


class CartPole:
    def reset(self):
        self.s = np.random.uniform(-0.05, 0.05, 4)
        self.steps = 0
        return self.s.astype(np.float32)

    def step(self, action):
        x, v, th, w = self.s
        force = 10.0 if action == 1 else -10.0
        temp = (force + 0.05 * w ** 2 * math.sin(th)) / 1.1
        acc_th = (9.8 * math.sin(th) - math.cos(th) * temp) / (0.5 * (4 / 3 - 0.1 * math.cos(th) ** 2 / 1.1))
        acc = temp - 0.05 * acc_th * math.cos(th) / 1.1
        self.s = self.s + 0.02 * np.array([v, acc, w, acc_th])
        self.steps += 1
        done = abs(self.s[0]) > 2.4 or abs(self.s[2]) > 0.2095 or self.steps >= 120
        return self.s.astype(np.float32), 1.0, bool(done)


class ReplayBuffer:
    def __init__(self, capacity):
        self.memory = deque(maxlen=capacity)

    def push(self, *transition):
        self.memory.append(transition)

    def sample(self, n):
        s, a, r, s2, d = zip(*random.sample(self.memory, n))
        as_float = lambda v: torch.tensor(np.array(v), dtype=torch.float32)
        return as_float(s), torch.tensor(a)[:, None], as_float(r), as_float(s2), as_float(d)


make_net = lambda: nn.Sequential(nn.Linear(4, 48), nn.ReLU(), nn.Linear(48, 2))
q_net, target_net = make_net(), make_net()
target_net.load_state_dict(q_net.state_dict())
optimizer = torch.optim.AdamW(q_net.parameters(), lr=2e-3, amsgrad=True)
env, buffer = CartPole(), ReplayBuffer(600)
epsilon, total_steps = 1.0, 0

for episode in range(8):
    state, done, episode_return = env.reset(), False, 0.0
    while not done:
        if random.random() < epsilon:
            action = random.randrange(2)
        else:
            with torch.no_grad():
                action = int(q_net(torch.as_tensor(state)).argmax())
        next_state, reward, done = env.step(action)
        buffer.push(state, action, reward, next_state, done)
        state, episode_return, total_steps = next_state, episode_return + reward, total_steps + 1
        if len(buffer.memory) >= 32:
            s, a, r, s2, d = buffer.sample(32)
            with torch.no_grad():
                y = r + 0.99 * (1 - d) * target_net(s2).max(1).values
            loss = nn.functional.smooth_l1_loss(q_net(s).gather(1, a).squeeze(1), y)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_value_(q_net.parameters(), 100)
            optimizer.step()
        if total_steps % 25 == 0:
            target_net.load_state_dict(q_net.state_dict())
    epsilon = max(0.05, epsilon * 0.8)
    print(f"episode {episode} return {episode_return:.0f} epsilon {epsilon:.3f} steps {total_steps}")

torch.save(q_net.state_dict(), "q_net.pt")
