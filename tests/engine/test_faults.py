"""Whose fault a lost leg is, by table."""

from __future__ import annotations

import pytest

from workbench.engine.judging.faults import BACKOFF_S, MOST_BACKOFF_S, QUICK_LOSSES, Faults

TYPE_ERROR = {"type": "TypeError", "line": 7}


@pytest.mark.parametrize("cause", ["worker", "cluster", "engine"])
def test_the_clusters_faults_never_use_up_a_trials_restarts(cause: str) -> None:
    faults = Faults(max_restarts=1)
    verdicts = [faults.judge(3, cause, 5, None, "its worker is gone") for _ in range(2000)]
    assert all(verdict.again for verdict in verdicts)
    assert [verdict.wait_s for verdict in verdicts[:QUICK_LOSSES]] == [0.0] * QUICK_LOSSES
    assert sorted(verdict.wait_s for verdict in verdicts) == [verdict.wait_s for verdict in verdicts]
    assert verdicts[-1].wait_s == MOST_BACKOFF_S
    faults.saved(3, 6)
    assert faults.judge(3, cause, 7, None, "its worker is gone").wait_s == 0
    assert faults.restarts(3) == 0


def test_a_store_that_cannot_be_written_is_waited_for_and_never_counted() -> None:
    faults = Faults(max_restarts=0)
    verdicts = [faults.judge(3, "store", 5, {"type": "StoreFull"}, "no space left") for _ in range(9)]
    assert all(verdict.again and verdict.wait_s > 0 for verdict in verdicts)


def test_a_trials_own_faults_are_counted_and_waited_for_longer_each_time() -> None:
    faults = Faults(max_restarts=2)
    first = faults.judge(0, "signal", 4, None, "died by SIGSEGV")
    second = faults.judge(0, "signal", 5, None, "died by SIGSEGV")
    third = faults.judge(0, "signal", 6, None, "died by SIGSEGV")
    assert (first.again, second.again, third.again) == (True, True, False)
    assert (first.wait_s, second.wait_s) == (BACKOFF_S, 2 * BACKOFF_S)
    assert "2 restarts" in third.reason


def test_a_newer_checkpoint_makes_the_count_begin_anew() -> None:
    faults = Faults(max_restarts=1)
    assert faults.judge(0, "signal", 4, None, "died").again
    faults.saved(0, 6)
    assert faults.restarts(0) == 0
    assert faults.judge(0, "signal", 8, None, "died").again


def test_an_old_checkpoint_saved_again_is_no_progress() -> None:
    faults = Faults(max_restarts=1)
    faults.saved(0, 6)
    assert faults.judge(0, "signal", 8, None, "died").again
    faults.saved(0, 6)
    assert not faults.judge(0, "signal", 9, None, "died").again


def test_the_same_exception_at_the_same_step_twice_in_a_row_is_not_tried_again() -> None:
    faults = Faults(max_restarts=5)
    assert faults.judge(0, "exception", 2, TYPE_ERROR, "TypeError").again
    verdict = faults.judge(0, "exception", 2, TYPE_ERROR, "TypeError")
    assert not verdict.again
    assert "second time in a row at step 2" in verdict.reason


def test_another_line_or_step_is_another_exception() -> None:
    faults = Faults(max_restarts=5)
    assert faults.judge(0, "exception", 2, TYPE_ERROR, "TypeError").again
    assert faults.judge(0, "exception", 3, TYPE_ERROR, "TypeError").again
    assert faults.judge(0, "exception", 3, {**TYPE_ERROR, "line": 9}, "TypeError").again


@pytest.mark.parametrize("cause", ["bad_metric", "missing_goal", "cannot_resume", "a word of a later runner"])
def test_what_is_not_the_clusters_fault_ends_after_some_restarts(cause: str) -> None:
    faults = Faults(max_restarts=2)
    verdicts = [faults.judge(0, cause, step, {"type": "Error"}, "no") for step in range(3)]
    assert [verdict.again for verdict in verdicts] == [True, True, False]
    assert not Faults(max_restarts=2).judge(0, cause, 1, {"type": "BadMetric"}, "no").again


@pytest.mark.parametrize("kind", ["BadMetric", "CannotResume", "SyntaxError"])
def test_what_training_again_cannot_mend_fails_at_once(kind: str) -> None:
    assert not Faults(max_restarts=5).judge(0, "exception", 0, {"type": kind}, "no").again


def test_a_refusal_fails_at_once() -> None:
    assert not Faults(max_restarts=5).judge(0, "refused", 0, None, "versions differ").again


def test_a_machine_out_of_memory_is_tried_once_more_alone_and_then_fails_with_a_hint() -> None:
    faults = Faults(max_restarts=5)
    first = faults.judge(0, "memory", 4, None, "the machine ran out of memory")
    assert (first.again, first.alone) == (True, True)
    faults.saved(0, 6)
    second = faults.judge(0, "memory", 8, None, "the machine ran out of memory", alone=True)
    assert not second.again
    assert "alone on its machine" in second.reason
    assert "smaller" in second.reason
    assert faults.judge(1, "memory", 4, None, "the machine ran out of memory").again
    # It goes on beside others and dies again: that was not alone.
    assert faults.judge(1, "memory", 8, None, "the machine ran out of memory").alone


def device(others: int) -> dict[str, object]:
    return {"type": "OutOfMemoryError", "device_memory": {"total": 80_000_000_000, "others": others}}


def test_a_gpu_that_is_full_of_others_memory_is_nobodys_fault_and_the_trial_goes_elsewhere() -> None:
    faults = Faults(max_restarts=0)
    verdicts = [faults.judge(0, "cuda_out_of_memory", 4, device(30_000_000_000), "out of memory") for _ in range(9)]
    assert all(verdict.again and verdict.wait_s > 0 for verdict in verdicts)
    assert "others hold 30.0 of the device's 80.0 GB" in verdicts[0].reason
    assert faults.restarts(0) == 0


@pytest.mark.parametrize("error", [device(0), device(1_000_000_000), {"type": "OutOfMemoryError"}])
def test_a_gpu_out_of_memory_with_nobody_beside_fails_with_a_hint(error: dict[str, object]) -> None:
    verdict = Faults(max_restarts=5).judge(0, "cuda_out_of_memory", 4, error, "out of memory")
    assert not verdict.again
    assert "smaller batch" in verdict.reason


def test_a_notice_is_never_the_trials_fault() -> None:
    faults = Faults(max_restarts=0)
    assert faults.judge(0, "preempted", 4, None, "its machine gave notice").again
    assert faults.troubled(0)
    faults.saved(0, 4, inside=7)
    assert not faults.troubled(0)


def test_batches_of_a_step_are_progress_too() -> None:
    faults = Faults(max_restarts=1)
    faults.saved(0, 4, inside=10)
    assert faults.judge(0, "signal", 4, None, "died").again
    faults.saved(0, 4, inside=10)
    assert faults.restarts(0) == 1
    faults.saved(0, 4, inside=11)
    assert faults.restarts(0) == 0
