"""Trains a small classifier of scikit-learn's digits in tinygrad, plain and with Quern as its kernel compiler: the same losses, and what
it took. Each in a process of its own; CLANG unless DEVICE is set."""

import json
import os
import subprocess
import sys
import tempfile
import time


def train() -> None:
    from sklearn.datasets import load_digits
    from tinygrad import Tensor, TinyJit, nn

    digits = load_digits()
    Tensor.manual_seed(7)
    x = Tensor((digits.images / 16).astype("float32").reshape(-1, 1, 8, 8)).realize()
    y = Tensor(digits.target.astype("int32")).realize()

    class Model:
        def __init__(self):
            self.conv1, self.conv2 = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
            self.out = nn.Linear(32 * 4, 10)

        def __call__(self, images: Tensor) -> Tensor:
            hidden = self.conv2(self.conv1(images).relu().max_pool2d()).relu().max_pool2d()
            return self.out(hidden.flatten(1))

    model = Model()
    optimizer = nn.optim.Adam(nn.state.get_parameters(model), lr=0.003)

    @TinyJit
    @Tensor.train()
    def step(images: Tensor, labels: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = model(images).sparse_categorical_crossentropy(labels).backward()
        optimizer.step()
        return loss.realize()

    start, losses, batch = time.perf_counter(), [], 128
    for i in range(int(os.environ.get("STEPS", "40"))):
        at = i * batch % (1797 - batch)
        losses.append(step(x[at:at + batch].contiguous().realize(), y[at:at + batch].contiguous().realize()).item())
    right = (model(x).argmax(1) == y).mean().item()
    print(json.dumps({"losses": losses, "right": right, "seconds": time.perf_counter() - start}))


def main() -> None:
    device = os.environ.get("DEVICE", "CLANG")
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for with_quern in ("0", "1"):
            env = os.environ | {device: "1", "QUERN_TINYGRAD": with_quern, "CACHEDB": os.path.join(folder, f"{with_quern}.db")}
            out = subprocess.run([sys.executable, __file__, "train"], env=env, check=True, text=True, stdout=subprocess.PIPE).stdout
            results.append(json.loads(out))
    plain, quern = results
    print("step    loss plain   with Quern")
    steps = len(plain["losses"])
    for i in range(0, steps, max(1, steps // 6)):
        print(f"{i:4} {plain['losses'][i]:12.6f} {quern['losses'][i]:12.6f}")
    print(f"right {plain['right']:11.1%} {quern['right']:12.1%}")
    print(f"took  {plain['seconds']:10.1f}s {quern['seconds']:11.1f}s")
    apart = max(abs(a - b) / max(abs(a), 0.05) for a, b in zip(plain["losses"], quern["losses"]))
    if apart > 0.02:
        sys.exit(f"the losses differ by up to {apart:.1%}")


if sys.argv[1:] == ["train"]:
    train()
else:
    main()
