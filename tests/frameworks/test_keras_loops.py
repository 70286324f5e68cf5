"""Models of Keras in a plain loop: killed after each step, they train as undisturbed ones, and nothing is lost."""

import pytest
from trial.world import points, said

HEAD = """
import os
os.environ["KERAS_BACKEND"] = "torch"
import numpy as np, keras, torch
from keras import layers, losses, metrics, optimizers
x = np.random.default_rng(1).normal(size=(64, 8)).astype("float32")
y = (x.sum(1) > 0).astype("int32")
inside = [layers.Dense(8), layers.BatchNormalization(), layers.Dropout(0.3)]
model = keras.Sequential([keras.Input((8,)), *inside, layers.Dense(2)])
error = losses.SparseCategoricalCrossentropy(from_logits=True)
"""
LOOPS = {
    "fit for one epoch": """
model.compile(optimizers.Adam(optimizers.schedules.CosineDecay(0.01, 20)), error, metrics=["accuracy"])
for epoch in trial.steps():
    told = model.fit(x, y, batch_size=16, verbose=0).history
    trial.report(score=told["loss"][0], accuracy=told["accuracy"][0])
""",
    "train_on_batch and a callback": """
model.compile(optimizers.SGD(0.05, momentum=0.9), error)
slower = keras.callbacks.ReduceLROnPlateau("loss", patience=0, min_delta=0.2)
slower.set_model(model); slower.on_train_begin()
for epoch in trial.steps():
    for i in np.random.permutation(4): loss = model.train_on_batch(x[i * 16:i * 16 + 16], y[i * 16:i * 16 + 16])
    slower.on_epoch_end(epoch, {"loss": float(loss)})
    trial.report(score=float(loss), lr=float(model.optimizer.learning_rate))
""",
    "a loop of torch": """
opt, right, seeds = optimizers.Adam(0.01), metrics.SparseCategoricalAccuracy(), keras.random.SeedGenerator(3)
for epoch in trial.steps():
    for i in np.random.permutation(4):
        part, truth = torch.tensor(x[i * 16:i * 16 + 16]), torch.tensor(y[i * 16:i * 16 + 16])
        loss = error(truth, model(part + 0.01 * keras.random.normal(part.shape, seed=seeds), training=True))
        model.zero_grad(); loss.backward()
        with torch.no_grad(): opt.apply([one.value.grad for one in model.trainable_weights], model.trainable_weights)
        right.update_state(truth, model(part))
    trial.report(score=loss, right=float(right.result()), n=float(opt.iterations.numpy()))
""",
    "an optimizer of the loop": """
opt = None
for epoch in trial.steps():
    if opt is None: opt = optimizers.Adam(0.01)
    loss = error(torch.tensor(y), model(torch.tensor(x), training=True))
    model.zero_grad(); loss.backward()
    with torch.no_grad(): opt.apply([one.value.grad for one in model.trainable_weights], model.trainable_weights)
    trial.report(score=loss, n=float(opt.iterations.numpy()))
""",
}


@pytest.mark.parametrize("name", LOOPS)
def test_killed_after_each_step_it_trains_as_an_undisturbed_one(server, experiment, name):
    runner = server.runner()
    calm = points(runner.leg(experiment(HEAD + LOOPS[name]).order()))
    runner.kill()
    cell, resumed = experiment(HEAD + LOOPS[name]), {}
    for start in range(4):
        runner = server.runner()
        told = runner.leg(cell.order(start + 1, start=start))
        assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
        runner.kill()
        assert not said(told, "begun")[0]["found"].get("inexact")
        resumed |= points(told)
    assert calm
    assert resumed == calm
