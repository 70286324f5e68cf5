"""The same content, launched by several processes at the same moment, is one experiment."""

import multiprocessing

from same_world import World, inside

from workbench.experiment.grammar import Options
from workbench.experiment.launching import experiment_of
from workbench.store.lists.numbering import versions_of

CELL = """
x = uniform(0.0, 1.0)
for epoch in trial.steps():
    trial.report(score={gain} * x)
"""


def launch_together(folder, ready, told, options):
    """Draft and, when all have drafted, launch."""
    world = World(folder)
    made = world.draft("digits", CELL.format(gain=1))
    ready.wait(60)
    experiment, is_new = experiment_of(made, options)
    told.put((experiment.id, is_new, list(experiment.changed)))


def together(folder, options):
    """What three processes that launch it at the same moment say."""
    forking = multiprocessing.get_context("fork")
    ready, told = forking.Barrier(3), forking.Queue()
    processes = [forking.Process(target=launch_together, args=(folder, ready, told, options)) for _ in range(3)]
    for process in processes:
        process.start()
    found = [told.get(timeout=60) for _ in processes]
    for process in processes:
        process.join(60)
    return found


def test_one_is_new_and_the_others_show_it(tmp_path):
    world = World(tmp_path)
    with inside(world.folder):
        found = together(tmp_path, Options())
    assert len({key for key, _, _ in found}) == 1
    assert versions_of(world.store, "digits") == {1}
    assert sorted(is_new for _, is_new, _ in found) == [False, False, True]
    shows = ["unchanged: showing digits@1; use --again to retrain"]
    assert sorted(lines for _, _, lines in found) == [[], shows, shows]


def test_those_that_are_to_train_again_are_all_new(tmp_path):
    world = World(tmp_path)
    with inside(world.folder):
        found = together(tmp_path, Options(again=True))
    assert len({key for key, _, _ in found}) == 3
    assert all(is_new for _, is_new, _ in found)


def test_an_experiment_of_another_name_or_content_is_not_shown_instead(tmp_path):
    world = World(tmp_path)
    with inside(world.folder):
        made = [world.draft("digits", CELL.format(gain=1)) for _ in range(2)]
        others = [world.draft("letters", CELL.format(gain=1)), world.draft("digits", CELL.format(gain=2))]
        first, is_new = made[0].launch_once(again=False)
        assert is_new
        assert all(one.launch_once(again=False)[1] for one in others)
        second, is_new = made[1].launch_once(again=False)
        assert (second.id, is_new) == (first.id, False)
