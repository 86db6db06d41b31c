"""What the tests share. The developer's own caches are none of their business: set before quern reads the environment."""

import os
import pathlib
import tempfile

os.environ["QUERN_CACHE"] = "off"
os.environ["QUERN_TUNED"] = "off"
os.environ["CACHEDB"] = os.path.join(tempfile.mkdtemp(prefix="quern_tinygrad_"), "cache.db")  # tinygrad's

import pytest

import quern

KERNELS = pathlib.Path(__file__).resolve().parents[2] / "examples" / "kernels"


@pytest.fixture
def matmul() -> str:
    """out = a @ b.T, 256 x 256 floats"""
    return (KERNELS / "matmul.kernel").read_text()


@pytest.fixture
def symbolic_sum() -> str:
    """out[64] = sum of the first n of a[64, 512]"""
    return (KERNELS / "symbolic_sum.kernel").read_text()


def add_kernel(dtype: str = "float", elements: int = 64) -> str:
    """out = a + b"""
    view = (f"UOp(Ops.VIEW,dtypes.void,arg=ShapeTracker(views=(View(shape=({elements},),strides=(1,),offset=0,mask=None,"
            f"contiguous=True),)),src=())")

    def buffer(n):
        return f"UOp(Ops.DEFINE_GLOBAL,dtypes.{dtype}.ptr(),arg={n},src=())"

    def load(n):
        return f"UOp(Ops.LOAD,dtypes.{dtype},arg=None,src=({buffer(n)},{view},))"
    return (f"UOp(Ops.SINK,dtypes.void,arg=None,src=(UOp(Ops.STORE,dtypes.void,arg=None,src=({buffer(0)},{view},"
            f"UOp(Ops.ADD,dtypes.{dtype},arg=None,src=({load(1)},{load(2)},)),)),))")


def device_or_skip(name: str) -> quern.Device:
    try:
        return quern.Device(name)
    except quern.DeviceError as e:
        pytest.skip(str(e))
