"""A set whose order a resume may change is named, unless the training code cannot see the order."""

import pytest
from trial.test_inexact import inexact

from workbench.trial.looking.sets import is_exact

NAMED = {
    "a pool that shrinks": (
        """
pool = {f"sample{i}" for i in range(300)}
for epoch in trial.steps():
    picked = random.sample(list(pool), 20)
    pool -= set(picked)
    trial.report(score=sum(int(one[6:]) for one in picked))""",
        {"the order of pool"},
    ),
    "a queue from which the loop takes": (
        """
todo = set(range(50))
for epoch in trial.steps():
    taken = [todo.pop() for _ in range(5)]
    todo.add(1000 + epoch)
    trial.report(score=sum(taken))""",
        {"the order of todo"},
    ),
    "one that grows": (
        """
seen = set()
for epoch in trial.steps():
    for n in range(12): seen.add(f"{epoch} {n}")
    trial.report(score=[int(one.split()[1]) for one in seen][0])""",
        {"the order of seen"},
    ),
    "one that each turn replaces": (
        """
class Pool:
    def __init__(self): self.left = {(n, 2 * n) for n in range(90)}
    def take(self):
        taken = [one for one in self.left if one[0] % 7 == len(self.left) % 7][:3]
        self.left = self.left - set(taken)
        return taken
pool = Pool()
for epoch in trial.steps(): trial.report(score=len(pool.take()))""",
        {"the order of pool.left"},
    ),
    "sets in a dict, and in a function": (
        """
def train(groups):
    free = frozenset(range(0, 7000, 7))
    for epoch in trial.steps():
        groups["train"].remove(next(iter(groups["train"])))
        free = free - {next(iter(free))}
        trial.report(score=len(free))
train({"train": {str(n) for n in range(40)}})""",
        {"the order of train():groups['train']", "the order of train():free"},
    ),
}

EXACT = {
    "what was seen is only looked up, counted, and sorted": """
class Vocabulary:
    def __init__(self): self.words = set()
    def new(self, words):
        found = [word for word in words if word not in self.words]
        self.words.update(found)
        return len(found) + len(self.words)
vocabulary, seen, gone = Vocabulary(), set(), {str(n) for n in range(90)}
def size(): return len(seen) if seen else 0
for epoch in trial.steps():
    words = [str(hash((epoch, n)) % 91) for n in range(30)]
    for word in words:
        seen.add(word)
        gone.discard(word)
    trial.report(score=vocabulary.new(words) + size(), first=int(sorted(seen)[0]), last=len(gone), has="7" in gone)""",
    "few numbers": """
done = set()
for epoch in trial.steps():
    done.add(epoch)
    trial.report(score=[*done][0])""",
    "a set that no turn changes": """
kept = {str(n) for n in range(90)}
for n in range(60): kept.discard(str(n))
for epoch in trial.steps(): trial.report(score=[int(one) for one in kept][0])""",
    "a set that each turn makes": """
for epoch in trial.steps():
    left = {str(n) for n in range(90)} - {str(epoch)}
    trial.report(score=[int(one) for one in left][0])""",
}


@pytest.mark.parametrize("name", NAMED)
def test_where_the_order_may_be_another_it_is_named(server, experiment, name):
    source, names = NAMED[name]
    assert inexact(server, experiment, source, legs=3) == [set(), names, names]


@pytest.mark.parametrize("name", EXACT)
def test_where_the_order_is_the_same_or_not_seen_nothing_is_named(server, experiment, name):
    assert inexact(server, experiment, EXACT[name]) == [set(), set()]


def test_what_was_removed_the_size_of_the_table_and_the_place_of_pop_count():
    some = set(range(50))
    assert is_exact(some)
    some.discard(7)
    assert not is_exact(some)
    many = set(range(2000))
    many -= set(range(10, 2000))
    assert not is_exact(many)
    taken = set(range(50))
    taken.add(taken.pop())
    assert not is_exact(taken)
    assert is_exact(set())
    assert is_exact(frozenset(range(9)))
