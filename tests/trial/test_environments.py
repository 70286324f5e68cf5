"""Environments of Gymnasium, as loops of reinforcement learning hold them: exact where all of them can be saved, and
named where a part is an object of another language."""

import pytest
from trial.loops import FOOT, HEAD
from trial.test_resume import same
from trial.world import said

GYM = HEAD + "import gymnasium as gym\n"

EXACT = {
    "one in wrappers that count, over the ends of episodes": """
env = gym.wrappers.RecordEpisodeStatistics(gym.make("CartPole-v1"))
obs, _ = env.reset(seed=0); env.action_space.seed(1)
for step in trial.steps():
    for _ in range(30):
        obs, reward, done, cut, _ = env.step(env.action_space.sample())
        if done or cut: obs, _ = env.reset()
    trial.report(score=obs.sum(), episodes=len(env.return_queue))
def result(): return obs.sum(), list(env.return_queue), list(env.length_queue)""",
    "several at once, in the middle of episodes": """
envs = gym.make_vec("CartPole-v1", 2, vectorization_mode="sync")
obs, _ = envs.reset(seed=0); envs.action_space.seed(1)
for step in trial.steps():
    obs, reward, *_ = envs.step(envs.action_space.sample())
    trial.report(score=obs.sum())
def result(): return obs.sum()""",
    "one of Box2D that begins an episode in each step": """
env = gym.make("LunarLander-v3")
obs, _ = env.reset(seed=0); env.action_space.seed(1)
for step in trial.steps():
    first, _ = env.reset()
    obs, reward, *_ = env.step(env.action_space.sample())
    trial.report(score=obs.sum(), first=first.sum())
def result(): return obs.sum()""",
}

GOES_ON = """
env = gym.make("BipedalWalker-v3")
obs, _ = env.reset(seed=0); env.action_space.seed(1)
for step in trial.steps():
    obs, reward, *_ = env.step(env.action_space.sample())
    trial.report(score=obs.sum())
"""


@pytest.mark.parametrize("name", EXACT)
def test_resumed_equals_undisturbed(server, experiment, name):
    same(server, experiment, GYM + EXACT[name] + FOOT)


def test_an_episode_of_box2d_that_goes_on_over_the_steps_is_named_and_does_not_crash(server, experiment):
    cell = experiment(GYM + GOES_ON, steps=3)
    for start in range(3):
        runner = server.runner()
        told = runner.leg(cell.order(start + 1, start=start))
        runner.kill()
        assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
        named = said(told, "begun")[0]["found"].get("inexact", [])
        assert [one["name"] for one in named] == (["env"] if start else [])
