"""REINFORCE on a gridworld written by hand; after pytorch/examples/reinforcement_learning."""
import argparse
from collections import deque, namedtuple

import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Categorical

parser = argparse.ArgumentParser(description="REINFORCE")
parser.add_argument("--gamma", type=float, default=0.97)
parser.add_argument("--lr", type=float, default=1e-2)
parser.add_argument("--seed", type=int, default=543)
args = parser.parse_args()

torch.manual_seed(args.seed)
Transition = namedtuple("Transition", "state action reward log_prob")


class GridWorld:
    moves = [(0, 1), (1, 0), (0, -1), (-1, 0)]

    def __init__(self, size=4, slip=0.1, seed=0):
        self.size, self.slip = size, slip
        self.rng = np.random.RandomState(seed)
        self.position = (0, 0)

    def reset(self):
        self.position, self.t = (self.rng.randint(2), self.rng.randint(2)), 0
        return self.observe()

    def observe(self):
        grid = np.zeros((self.size, self.size), dtype=np.float32)
        grid[self.position] = 1
        return grid.ravel()

    def step(self, action):
        if self.rng.rand() < self.slip:
            action = self.rng.randint(4)
        dx, dy = self.moves[action]
        clip = lambda v: min(self.size - 1, max(0, v))
        self.position = clip(self.position[0] + dx), clip(self.position[1] + dy)
        self.t += 1
        at_goal = self.position == (self.size - 1, self.size - 1)
        return self.observe(), 1.0 if at_goal else -0.04, at_goal or self.t >= 30


env = GridWorld(seed=args.seed)
policy = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4), nn.Softmax(dim=-1))
optimizer = torch.optim.Adam(policy.parameters(), lr=args.lr)
eps = np.finfo(np.float32).eps.item()
episode_buffer = deque(maxlen=200)
running_reward = 0.0


def run_episode():
    state, done, episode = env.reset(), False, []
    while not done:
        m = Categorical(policy(torch.from_numpy(state)))
        action = m.sample()
        next_state, reward, done = env.step(action.item())
        episode.append(Transition(state, action.item(), reward, m.log_prob(action)))
        state = next_state
    return episode


def finish_episode(episode):
    R, returns = 0, deque()
    for step in reversed(episode):
        R = step.reward + args.gamma * R
        returns.appendleft(R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + eps)
    optimizer.zero_grad()
    torch.stack([-s.log_prob * R for s, R in zip(episode, returns)]).sum().backward()
    optimizer.step()
    episode_buffer.extend(episode)


for i_episode in range(6):
    for _ in range(5):
        episode = run_episode()
        if len(episode) > 1:
            finish_episode(episode)
        running_reward = 0.05 * sum(s.reward for s in episode) + 0.95 * running_reward
    print(f"Episode {i_episode * 5}\tAverage reward: {running_reward:.4f}\tBuffer: {len(episode_buffer)}")

torch.save(policy.state_dict(), "policy.pt")
