"""Arrays, tensors and other large data travel by content, once, and are mapped where they are read."""

import gc
import io
import os
import resource
from pathlib import Path

import numpy as np
import pytest
from snapshot.notebooks import Notebook, loaded

from workbench.snapshot import loading

torch = pytest.importorskip("torch")


def blobs(store):
    return sorted(path.stat().st_size for path in store.blobs.iterdir())


def test_large_arrays_are_kept_once_by_content(store):
    array = np.arange(100_000.0)
    notebook = Notebook(a=array, b=array.copy(), small=np.arange(10))
    notebook.capture(store, "a", "small")
    first = blobs(store)
    assert first[-1] == array.nbytes
    notebook.capture(store, "a", "b", "small")
    assert blobs(store)[-1] == array.nbytes
    assert sum(size >= 1 << 16 for size in blobs(store)) == 1


def test_what_one_runner_writes_no_other_sees(store):
    notebook = Notebook(a=np.zeros(100_000), t=torch.zeros(100_000))
    captured = notebook.capture(store, "a", "t")
    one, other = loaded(store, captured), loaded(store, captured)
    one["a"][:] = 1
    one["t"].fill_(1)
    assert other["a"].sum() == other["t"].sum() == notebook.names["a"].sum() == 0
    assert loaded(store, captured)["a"].sum() == 0


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(np.arange(60_000.0).reshape(200, 300)),
        np.arange(60_000.0).reshape(200, 300)[:, ::2],
        np.arange(60_000.0)[::-1],
        np.arange(60_000.0).reshape(200, 300).T,
        np.arange(60_000).astype("datetime64[s]"),
        np.zeros(20_000, dtype=[("x", "f8"), ("y", "i4")]),
        np.array(["a", None, {"b": 1}] * 10, dtype=object),
        np.array(["text"] * 30_000),
        np.zeros((0, 5)),
        np.float32(3),
        np.zeros(()),
        np.ma.masked_array(np.arange(20_000.0), np.arange(20_000) % 2),
        np.arange(20_000.0).astype(">f4"),
    ],
    ids=lambda array: f"{type(array).__name__}-{array.dtype}-{array.shape}"[:40],
)
def test_arrays_of_every_kind_come_back(store, array):
    runner = loaded(store, Notebook(a=array).capture(store, "a"))
    assert type(runner["a"]) is type(array)
    np.testing.assert_array_equal(runner["a"], array)
    assert runner["a"].dtype == array.dtype


def test_read_only_arrays_stay_read_only_and_others_are_writable(store):
    fixed = np.zeros(100_000)
    fixed.flags.writeable = False
    runner = loaded(store, Notebook(fixed=fixed, free=np.ones(100_000)).capture(store, "fixed", "free"))
    assert not runner["fixed"].flags.writeable
    assert runner["free"].flags.writeable


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(60_000).to(torch.bfloat16),
        torch.arange(60_000.0).reshape(200, 300)[:, ::2],
        torch.arange(60_000.0).reshape(200, 300).T,
        torch.zeros(0),
        torch.tensor(3.0),
        torch.zeros(3, requires_grad=True),
        torch.eye(100).to_sparse(),
        torch.zeros(5, dtype=torch.bool),
        torch.zeros(20_000, dtype=torch.complex64).conj(),
        torch.nn.Parameter(torch.ones(30_000)),
        torch.zeros(3, device="meta"),
        torch.zeros(1).expand(50_000),
    ],
    ids=lambda tensor: f"{tensor.dtype}-{tuple(tensor.shape)}-{tensor.layout}",
)
def test_tensors_of_every_kind_come_back(store, tensor):
    found = loaded(store, Notebook(t=tensor).capture(store, "t"))["t"]
    assert type(found) is type(tensor)
    assert (found.dtype, found.shape, found.requires_grad) == (tensor.dtype, tensor.shape, tensor.requires_grad)
    assert found.stride() == tensor.stride() if tensor.layout == torch.strided else True
    if tensor.device.type != "meta":
        assert torch.equal(found.to_dense(), tensor.to_dense())


def test_pandas_travels_with_its_columns_aside(store):
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"x": np.arange(50_000.0), "y": np.arange(50_000), "s": ["text"] * 50_000})
    notebook = Notebook(table=table, column=table["x"])
    captured = notebook.capture(store, "table", "column")
    runner = loaded(store, captured)
    pd.testing.assert_frame_equal(runner["table"], table)
    runner["table"].loc[0, "x"] = 7.0
    assert len(loading._manifest(store, captured.digest)["regions"]) >= 2


def test_a_model_of_hundreds_of_arrays_holds_no_file_open(store):
    notebook = Notebook(weights=[np.full(20_000, float(i)) for i in range(150)])
    captured = notebook.capture(store, "weights")
    before = len(os.listdir("/proc/self/fd"))
    runner = loaded(store, captured)
    assert len(os.listdir("/proc/self/fd")) <= before + 1
    assert runner["weights"][149][5] == 149
    maps = Path("/proc/self/maps").read_text().count(str(store.blobs))
    assert maps >= 150
    del runner
    gc.collect()
    assert Path("/proc/self/maps").read_text().count(str(store.blobs)) < maps


def test_a_mapped_file_is_captured_by_content_or_when_huge_by_its_place(store, tmp_path, monkeypatch):
    mapped = np.memmap(tmp_path / "train.bin", np.uint16, "w+", shape=(50_000,))
    mapped[:] = np.arange(50_000)
    notebook = Notebook(mapped=mapped, part=mapped[5:50])
    runner = loaded(store, notebook.capture(store, "mapped", "part"))
    assert type(runner["mapped"]) is np.ndarray
    assert runner["part"][0] == 5
    monkeypatch.setattr("workbench.snapshot.pickling.HUGE", 1000)
    captured = notebook.capture(store, "mapped")
    assert captured.size < 10_000
    runner = loaded(store, captured)
    runner["mapped"][0] = 9
    assert (mapped[0], runner["mapped"][0], runner["mapped"][7]) == (0, 9, 7)
    # Parts of one are told apart by what they show: each of them says the offset of the whole.
    halves = Notebook(one=mapped[:20_000], other=mapped[20_000:40_000]).capture(store, "one", "other").names
    assert halves["one"] != halves["other"]


def test_memory_is_mapped_and_not_read(store):
    notebook = Notebook(a=np.ones(20_000_000))
    captured = notebook.capture(store, "a")
    del notebook
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    loaded(store, captured)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


def test_storages_on_other_devices_go_through_the_cpu_and_back(store):
    from workbench.snapshot import rebuilding
    from workbench.snapshot.pickling import Pickler

    class Elsewhere:
        device = torch.device("cuda:1")

        def data_ptr(self):
            return 1234

        def nbytes(self):
            return 200_000

        def cpu(self):
            return torch.arange(50_000.0).untyped_storage()

    pickler = Pickler(io.BytesIO(), {})
    make, (buffer, device) = pickler._storage(Elsewhere())
    assert (make, device) == (rebuilding.make_storage, "cuda:1")
    assert pickler.notes == {"cuda:1": 200_000}
    assert bytes(buffer)[:8] == np.arange(2.0, dtype="f4").tobytes()
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match=r"no cuda device.*tensor.cpu\(\)"):
            make(bytearray(4), device)
