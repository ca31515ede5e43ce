"""Predictions for the rows of files: with Ray Data over several actors, or batch after batch in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raycipe.framework.errors import RunError

if TYPE_CHECKING:
    from raycipe.framework.contracts import Trained
    from raycipe.framework.predicting import Predictor
    from raycipe.launchers.tasks import Job

ACTORS_CPUS = (
    0.0  # Ray Data lists and reads files in tasks of a CPU each, which wait for ever where actors hold all CPUs
)


def predict(job: Job, trained: Trained) -> None:
    """Write the table of predictions to the run's artifacts, its rows in the order of the input."""
    from raycipe.framework.predicting import Predictor, input_files
    from raycipe.framework.training.loading import load_data

    section = job.recipe.plain["predict"]
    data, _ = load_data(job.plain)
    predictor = Predictor(data, trained.model, trained.estimator, str(trained.device), section.get("columns"))
    files, format = input_files(section["path"])
    job.on_info(f"predicting the rows of {section['path']} ...")
    size = int(section["batch_size"])
    tables = (
        _on_ray(job, predictor, files, format, size) if job.places.at_a_time else _here(predictor, files, format, size)
    )
    output = job.run.artifacts / section["output"]
    count = _write(job, tables, output)
    title = f"predictions of {count:,} rows"
    job.outcome["artifacts"].append({"path": f"artifacts/{output.name}", "kind": "table", "title": title})
    job.on_info(f"{count:,} rows predicted: {output}")


def _here(predictor: Predictor, files: list[str], format: str, size: int) -> Iterator[Any]:
    import pyarrow as pa

    from raycipe.framework.predicting import batches_of

    for batch in batches_of(files, format, size):
        yield predictor(pa.Table.from_batches([batch]))


class Actor:
    """Holds the model in a process of its own."""

    def __init__(self, predictor: Any, roots: list[Any]) -> None:
        import ray

        from raycipe.framework import plugins

        plugins.adopt(roots)
        self.predictor: Predictor = ray.get(predictor[0])

    def __call__(self, table: Any) -> Any:
        return self.predictor(table)


def _on_ray(job: Job, predictor: Predictor, files: list[str], format: str, size: int) -> Iterator[Any]:
    import ray

    options = job.places.options
    read: Any = ray.data.read_parquet if format == "parquet" else ray.data.read_csv
    with _ordered():
        rows = read(files)
        # In a list: Ray would give an argument's content, and that before the components can be imported.
        given = {"predictor": [ray.put(predictor)], "roots": job.roots}
        found = rows.map_batches(
            Actor,
            batch_size=size,
            batch_format="pyarrow",
            fn_constructor_kwargs=given,
            compute=ray.data.ActorPoolStrategy(size=job.places.at_a_time),
            num_cpus=ACTORS_CPUS,
            num_gpus=options["num_gpus"],
        )
        try:
            yield from found.iter_batches(batch_size=None, batch_format="pyarrow")
        except Exception as error:  # whatever Ray Data wraps it in: the reason is told
            raise _reason(error, job.recipe.plain["predict"]["path"]) or error from error


def _reason(error: BaseException, path: str) -> RunError | None:
    """What a component or pyarrow said, within whatever Ray Data made of it."""
    from pyarrow import ArrowInvalid

    from raycipe.framework.predicting import unreadable

    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, RunError):
            return seen
        if isinstance(seen, ArrowInvalid):
            return unreadable(seen, path)
        seen = getattr(seen, "cause", None) or seen.__cause__ or seen.__context__
    return None


@contextmanager
def _ordered() -> Iterator[None]:
    """Rows keep their order, and Ray Data draws no bars of its own."""
    import ray

    context = ray.data.DataContext.get_current()
    before = context.execution_options.preserve_order, context.enable_progress_bars
    context.execution_options.preserve_order, context.enable_progress_bars = True, False
    try:
        yield
    finally:
        context.execution_options.preserve_order, context.enable_progress_bars = before


def _write(job: Job, tables: Iterator[Any], output: Path) -> int:
    """Table after table to a file beside, which takes its name when all is there; gives the number of rows."""
    from pyarrow import csv, parquet

    from raycipe.launchers.fan_out import Stopped

    beside = output.with_name(f".{output.name}")
    writer: Any = None
    count = 0
    try:
        for table in tables:
            if job.stop.exists():
                raise Stopped
            if writer is None:
                opens = parquet.ParquetWriter if output.suffix == ".parquet" else csv.CSVWriter
                writer = opens(beside, table.schema)
            writer.write_table(table)
            count += table.num_rows
            job.progress({"step": count, "total_steps": None, "epoch": None})
    finally:
        if writer is not None:
            writer.close()
    if not count:
        raise RunError("data", "the files of predict.path hold no rows", where="predict.path")
    beside.replace(output)
    return count
