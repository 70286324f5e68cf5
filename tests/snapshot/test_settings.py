"""Settings that cells made: recorded as plain data, put into another process, refused where they cannot travel."""

import json
import subprocess
import sys
import textwrap

import pytest

#: What a cell did, and how it is recorded.
MADE = {
    "torch.set_default_dtype(torch.float64)": {"torch.set_default_dtype": "torch.float64"},
    "torch.set_default_device('meta')": {"torch.set_default_device": "meta"},
    "torch.use_deterministic_algorithms(True)": {"torch.use_deterministic_algorithms": "on"},
    "torch.use_deterministic_algorithms(True, warn_only=True)": {"torch.use_deterministic_algorithms": "warn only"},
    "torch.set_float32_matmul_precision('medium')": {"torch.set_float32_matmul_precision": "medium"},
    "torch.backends.cuda.matmul.allow_tf32 = True": {"torch.set_float32_matmul_precision": "high"},
    "torch.backends.cuda.matmul.fp32_precision = 'tf32'": {
        "torch.set_float32_matmul_precision": "by backend",
        "torch.backends.cuda.matmul.fp32_precision": "tf32",
    },
    "torch.backends.cudnn.benchmark = True": {"torch.backends.cudnn.benchmark": True},
    "torch.backends.cudnn.deterministic = True": {"torch.backends.cudnn.deterministic": True},
    "torch.backends.cudnn.allow_tf32 = False": {"torch.backends.cudnn.allow_tf32": False},
    "torch.backends.mkldnn.enabled = False": {"torch.backends.mkldnn.enabled": False},
    "torch.backends.cuda.enable_flash_sdp(False)": {"torch.backends.cuda.enable_flash_sdp": False},
    "torch.set_grad_enabled(False)": {"torch.set_grad_enabled": False},
    "torch.autograd.set_detect_anomaly(True)": {"torch.autograd.set_detect_anomaly": "on"},
    "torch.set_flush_denormal(True)": {"torch.set_flush_denormal": True},
    "torch.multiprocessing.set_sharing_strategy('file_system')": {
        "torch.multiprocessing.set_sharing_strategy": "file_system"
    },
    "numpy.seterr(all='raise')": {
        "numpy.seterr": {"divide": "raise", "over": "raise", "under": "raise", "invalid": "raise"}
    },
    "locale.setlocale(locale.LC_NUMERIC, 'C.UTF-8')": {"locale.setlocale": "LC_CTYPE=C.UTF-8;LC_NUMERIC=C.UTF-8;…"},
    "decimal.getcontext().prec = 50": {"decimal.setcontext": "prec 50, …"},
    "sys.setrecursionlimit(5000)": {"sys.setrecursionlimit": 5000},
    "sklearn.set_config(transform_output='pandas', assume_finite=True)": {
        "sklearn.set_config(assume_finite)": True,
        "sklearn.set_config(transform_output)": "pandas",
    },
    "keras.config.set_floatx('float64')": {"keras.config.set_floatx": "float64"},
    "keras.mixed_precision.set_global_policy('mixed_bfloat16')": {"keras.config.set_dtype_policy": "mixed_bfloat16"},
    "keras.config.set_image_data_format('channels_first')": {"keras.config.set_image_data_format": "channels_first"},
    "PIL.ImageFile.LOAD_TRUNCATED_IMAGES = True": {"PIL.ImageFile.LOAD_TRUNCATED_IMAGES": True},
    "PIL.Image.MAX_IMAGE_PIXELS = None": {"PIL.Image.MAX_IMAGE_PIXELS": "any"},
    "multiprocessing.set_start_method('spawn')": {"multiprocessing.set_start_method": "spawn"},
    "pandas.options.mode.chained_assignment = 'raise'": {"pandas.options.mode.chained_assignment": "raise"},
    "warnings.simplefilter('error', RuntimeWarning)": {"warnings.filters": "error RuntimeWarning"},
    "warnings.filterwarnings('ignore')": {"warnings.filters": "ignore Warning"},
    "pass": {},
}
IMPORTS = """
import decimal, json, locale, multiprocessing, os, pandas, sys, warnings
os.environ["KERAS_BACKEND"] = "torch"
import keras, matplotlib, PIL.Image, PIL.ImageFile, sklearn
import numpy, torch, torch.multiprocessing
from workbench.snapshot.settings import settings
"""
#: Each line is a list of statements for a process of its own, forked so that torch is imported once.
PROBE = (
    IMPORTS
    + """
import os
def aside(do):
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            said = do()
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, json.dumps(said).encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as file:
        text = file.read()
    os.wait()
    return json.loads(text)
def recorded(cell):
    exec(cell)
    return settings.here()
def put(made):
    settings.put(made)
    return settings.here()
for cell in json.loads(sys.stdin.read()):
    made = aside(lambda: recorded(cell))
    again = aside(lambda: put(made)) if isinstance(made, dict) else None
    print(json.dumps([made, again]), flush=True)
"""
)


def probed(cells):
    """For each cell what is recorded after it, and what another process records after that was put into it."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE], input=json.dumps(cells), capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def found():
    return dict(zip(MADE, probed([*MADE]), strict=True))


@pytest.mark.parametrize("cell", [*MADE])
def test_a_setting_is_recorded_and_another_process_gets_it(found, cell):
    made, again = found[cell]
    from workbench.snapshot.settings.settings import compared, shown

    told = {
        name: value if not isinstance(wanted, str) or wanted == value else shown(name, value)
        for (name, value), wanted in zip(compared(made).items(), MADE[cell].values(), strict=True)
    }
    for name, wanted in MADE[cell].items():
        if isinstance(wanted, str) and wanted.endswith("…"):
            assert str(told.pop(name)).startswith(wanted.removesuffix("…").removesuffix(", "))
        else:
            assert told.pop(name) == wanted
    assert not told
    assert again == made


REFUSED = {
    "keras.config.set_dtype_policy(keras.dtype_policies.QuantizedDTypePolicy('int8', 'float32'))": (
        "keras.config.set_dtype_policy"
    ),
    "class Mine(UserWarning): pass\nwarnings.simplefilter('ignore', Mine)": "Mine",
    "numpy.seterrcall(print); numpy.seterr(all='call')": "numpy.seterrcall",
    "torch.set_default_device('cuda')": "there is no GPU here",
    "torch.overrides.TorchFunctionMode().__enter__()": "TorchFunctionMode",
    "sys.held = torch.inference_mode(); sys.held.__enter__()": "torch.inference_mode",
}


def test_what_cannot_travel_is_refused_in_one_line_that_says_what_and_what_to_do():
    for (cell, wanted), (made, _) in zip(REFUSED.items(), probed([*REFUSED]), strict=True):
        assert isinstance(made, str), cell
        assert made.startswith("BadSetting: ")
        assert wanted in made
        assert made.endswith("before the train cell, or write it inside.")
        assert "\n" not in made


def run(code):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_nothing_is_imported_to_look():
    assert run("""
        import sys
        from workbench.snapshot.settings import settings
        before = set(sys.modules)
        settings.here()
        print(sorted(set(sys.modules) - before))
    """) == ["[]"]


def test_settings_hold_in_a_module_that_is_imported_later_and_are_put_once():
    assert run("""
        import warnings
        from workbench.snapshot.settings.settings import Holding
        named = {"message": None, "category": "torch.jit:TracerWarning", "module": None, "line": 0}
        filters = [{"action": "error", **named}]
        held = Holding({"torch.set_default_dtype": "torch.float64", "warnings.filters": filters}, threads=1)
        print(any(entry[0] == "error" for entry in warnings.filters))
        import torch
        held.imported()
        print(torch.get_default_dtype(), any(entry[0] == "error" for entry in warnings.filters))
        torch.set_default_dtype(torch.float32)
        held.imported()
        print(torch.get_default_dtype())
    """) == ["False", "torch.float64", "True", "torch.float32"]


def test_settings_are_those_of_the_thread_that_asks_another_to_launch():
    assert run("""
        import contextvars, threading
        import torch
        from workbench.snapshot.settings import settings
        torch.set_grad_enabled(False)
        def told():
            print(settings.here().get("torch.set_grad_enabled"))
        def aside():
            thread = threading.Thread(target=contextvars.copy_context().run, args=(told,))
            thread.start()
            thread.join()
        aside()
        with settings.taken():
            aside()
        aside()
    """) == ["None", "False", "None"]


def test_modules_that_add_filters_change_nothing_that_is_compared():
    assert run("""
        from workbench.snapshot.settings import settings
        before = settings.compared(settings.here())
        import numpy, scipy.special, sklearn, torch, torch._dynamo, requests, detect_secrets
        print(settings.compared(settings.here()) == before == {})
    """) == ["True"]


def test_a_filter_keeps_its_place_before_those_of_the_process():
    assert run("""
        import warnings
        from workbench.snapshot.settings import settings
        warnings.simplefilter("ignore", DeprecationWarning)  # Python has it too, further behind
        made = settings.here()
        warnings.resetwarnings()
        warnings.filterwarnings("default", category=DeprecationWarning, module="__main__")
        settings.put(made)
        with warnings.catch_warnings(record=True) as caught:
            warnings.warn("old", DeprecationWarning)
        print(len(caught))
    """) == ["0"]


def test_one_that_cannot_be_had_there_is_named():
    from workbench.errors import BadSetting
    from workbench.snapshot.settings import settings

    with pytest.raises(BadSetting, match=r"locale.setlocale to xx_XX, and that is not available where this trains"):
        settings.put({"locale.setlocale": "xx_XX"})


def test_what_people_see_travels_and_is_not_compared():
    assert run("""
        import logging, matplotlib, sys
        from workbench.snapshot.settings import outputs, settings
        def seen():
            return {name: value for name, value in settings.here().items() if name in outputs.NAMES}
        assert not seen()
        matplotlib.rcParams.update({"lines.linewidth": 7.0, "backend": "svg"})
        matplotlib.rcParams["axes.prop_cycle"] = matplotlib.cycler("color", ["r", "g"])
        logging.basicConfig(level=logging.INFO, format="%(message)s")
        mine = logging.getLogger("mine")
        mine.addHandler(logging.StreamHandler(sys.stdout))
        mine.propagate = False
        logging.getLogger("another's").setLevel(10)
        made = seen()
        print(*made["matplotlib.rcParams"], *made["logging"], settings.compared(made))
        matplotlib.rcdefaults()
        for logger in (logging.root, mine):
            logger.setLevel(logging.WARNING if logger is logging.root else logging.NOTSET)
            logger.handlers.clear()
        mine.propagate = True
        assert not seen()
        settings.put(made)
        print(seen() == made)
        mine.warning("heard")
    """) == ["lines.linewidth", "axes.prop_cycle", "root", "mine", "{}", "True", "heard"]


def test_settings_that_are_lent_leave_what_people_see_alone():
    assert run("""
        import logging, numpy
        from workbench.snapshot.settings import settings
        logging.basicConfig(level=logging.INFO)
        handlers = logging.root.handlers[:]
        numpy.seterr(over="raise")
        made = settings.here()
        numpy.seterr(over="warn")
        logging.root.setLevel(logging.ERROR)
        with settings.lent(made):
            print(numpy.geterr()["over"], logging.root.level, logging.root.handlers == handlers)
        print(numpy.geterr()["over"])
    """) == ["raise", "40", "True", "warn"]
