"""A rendered episode as a GIF.

MuJoCo chooses how it draws when it is imported, so its pictures are made in a process of their own, without a screen:
by EGL, else by OSMesa. A driver that crashes then takes nothing with it.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from raycipe.framework import plugins
from raycipe.framework.contracts import Env, Policy
from raycipe.framework.episodes import frames
from raycipe.framework.registry import build

MOST_FRAMES = 100  # a longer episode is shown with larger steps, not cut off: drawing is slow
WIDTH = 320  # pixels
FRAMES_PER_S = 25
WAIT_S = 180.0
Roots = Sequence[tuple[str, str, str]]


def record(policy: Policy, section: Any, roots: Roots, seed: int, length: int) -> bytes | str:
    """The GIF of the episode with this seed, which has `length` steps, or why there is none: whatever a renderer says,
    the run goes on."""
    every = -(-length // MOST_FRAMES)
    env: Env = build(section, "envs", "env")
    try:
        plain = env.make()
        modes, is_mujoco = plain.metadata.get("render_modes") or (), _is_mujoco(plain)
        plain.close()
        if "rgb_array" not in modes:
            return "the environment can't draw itself (no render mode rgb_array)"
        return (_apart if is_mujoco else picture)(policy, section, roots, seed, every)
    except Exception as error:  # noqa: BLE001 - renderers fail in every way, with drivers and screens
        return f"{type(error).__name__}: {error}"


def _is_mujoco(env: Any) -> bool:
    return any(cls.__name__ == "MujocoEnv" for cls in type(env.unwrapped).__mro__)


def _apart(policy: Policy, section: Any, roots: Roots, seed: int, every: int) -> bytes | str:
    """In a process of its own, by the first way to draw that works."""
    import ray

    reasons = []
    for way in ("egl", "osmesa"):
        environment = {"env_vars": {"MUJOCO_GL": way, "PYOPENGL_PLATFORM": way, "OMP_NUM_THREADS": "1"}}
        task = ray.remote(picture).options(num_cpus=0, max_retries=0, runtime_env=environment)
        reference = task.remote(policy, section, roots, seed, every)
        try:
            made: bytes = ray.get(reference, timeout=WAIT_S)
            return made
        except Exception as error:  # noqa: BLE001 - a missing library, a crash, a timeout: the next way
            ray.cancel(reference, force=True)
            reasons.append(f"{way}: {_last_line(error)}")
    return "; ".join(reasons)


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:200] if lines else type(error).__name__


def picture(policy: Policy, section: Any, roots: Roots, seed: int, every: int) -> bytes:
    """One episode of this seed as a GIF at most WIDTH pixels wide, with each `every`-th step."""
    from PIL import Image

    plugins.adopt(list(roots))
    shown: list[Any] = []
    for frame in frames(policy, build(section, "envs", "env"), seed, every):
        image = Image.fromarray(frame)
        size = (WIDTH, max(1, round(image.height * WIDTH / image.width))) if image.width > WIDTH else image.size
        shown.append(image.resize(size).quantize(64))
    out = io.BytesIO()
    shown[0].save(out, "GIF", save_all=True, append_images=shown[1:], duration=1000 // FRAMES_PER_S, loop=0)
    return out.getvalue()
