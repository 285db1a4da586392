"""What an H200 gave (Triton 3.6, proof/results/conformance_h200.json) where plain arithmetic would give another meaning."""

import math

import pytest
import torch
from conformance import kernels_lanewise as k
from conformance.comparing import apart
from conformance.launching import lanewise
from triton.language.extra.cuda import libdevice

SUBNORMAL = 5.877471754111438e-39
INF = math.inf
MEASURED = [
    (k.sqrt, (SUBNORMAL,), 0.0),
    (k.rsqrt, (SUBNORMAL,), INF),
    (k.erf, (SUBNORMAL,), 0.0),
    (k.floor, (-1.4927906423590487e-39,), -0.0),
    (k.ceil, (1.8097125069461423e-39,), 0.0),
    (libdevice.asin, (SUBNORMAL,), 0.0),
    (libdevice.asinh, (SUBNORMAL,), 0.0),
    (libdevice.atan, (SUBNORMAL,), 0.0),
    (libdevice.atanh, (SUBNORMAL,), 0.0),
    (libdevice.sinh, (SUBNORMAL,), 0.0),
    (libdevice.tanh, (SUBNORMAL,), 0.0),
    (libdevice.log1p, (SUBNORMAL,), 0.0),
    (libdevice.expm1, (SUBNORMAL,), 0.0),
    (libdevice.cyl_bessel_i1, (-1.1754943508222875e-38,), -0.0),
    (libdevice.cbrt, (SUBNORMAL,), math.nan),
    (libdevice.rcbrt, (SUBNORMAL,), math.nan),
    (libdevice.atan2, (SUBNORMAL, 1.0), 0.0),
    (libdevice.fmod, (SUBNORMAL, -2.5), 0.0),
    (libdevice.fmod, (-2.5, SUBNORMAL), math.nan),
    (libdevice.pow, (SUBNORMAL, 1.0), 0.0),
    (libdevice.sinpi, (1.0,), 0.0),
    (libdevice.sinpi, (-1.0,), -0.0),
    (libdevice.cospi, (0.5,), 0.0),
    (libdevice.cospi, (-2.5,), 0.0),
    (libdevice.cospi, (1.5,), 0.0),
    (libdevice.add_rd, (1.0, -1.0), -0.0),
    (libdevice.sub_rd, (1.7, 1.7), -0.0),
    (libdevice.fma_rd, (-1.0, 1.7, 1.7), -0.0),
    (k.truediv, (3.0, -3.4028234663852886e38), -8.816207631167156e-39),
]
FROM_PTX = [
    (k.exp2, (-130.0,), 0.0),
    (k.exp, (-90.0,), 8.19401262e-40),
    (k.sqrt_rn, (SUBNORMAL,), 7.666466952210875e-20),
    (libdevice.fast_logf, (SUBNORMAL,), -INF),
    (libdevice.fast_powf, (-2.5, 2.0), math.nan),
    (libdevice.nextafter, (0.0, -1.0), -1.1754943508222875e-38),
    (libdevice.nextafter, (1.1754943508222875e-38, 0.0), 1.1754942106924411e-38),
    (libdevice.add_rn, (SUBNORMAL, 0.0), 0.0),
    (libdevice.add_rd, (0.0, 0.0), 0.0),
    (libdevice.fma, (SUBNORMAL, 1.0, 0.0), 0.0),
    (k.fma, (SUBNORMAL, 1.0, 0.0), SUBNORMAL),
]


@pytest.mark.parametrize(("op", "inputs", "expected"), MEASURED + FROM_PTX)
def test_a_function_gives_what_the_chip_does(op, inputs, expected):
    tensors = [torch.full((64,), value, dtype=torch.float32) for value in inputs]
    found = lanewise(op, tensors, torch.float32)
    assert int(apart(found, torch.full((64,), expected, dtype=torch.float32)).max()) <= (1 if op is k.truediv else 0)


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [((-1.7e308, 2.5, INF), INF), ((1.7e308, 1.7e308, -INF), -INF), ((INF, 1.0, -INF), math.nan)],
)
def test_an_infinite_summand_outweighs_a_product_that_overflows(inputs, expected):
    tensors = [torch.full((64,), value, dtype=torch.float64) for value in inputs]
    found = lanewise(k.fma, tensors, torch.float64)
    assert int(apart(found, torch.full((64,), expected, dtype=torch.float64)).max()) == 0
