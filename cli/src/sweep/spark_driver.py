"""Runs the tasks of `iocast sweep` on Apache Spark, each partition through a process `iocast worker`."""

import hashlib
import os
import shutil
import subprocess
import sys
import threading

import pyarrow
import pyarrow.fs
from pyspark import SparkFiles
from pyspark.sql import SparkSession

tasks, results, worker, partitions, schema = sys.argv[1:6]
store = sys.argv[6] if len(sys.argv) > 6 else None


def fetch(names, cache):
    """Copies files of the store that are not in the folder `cache` yet. One that the store lacks stays missing."""
    files, base = pyarrow.fs.FileSystem.from_uri(store)
    for name in names:
        path = os.path.join(cache, name)
        if not os.path.realpath(path).startswith(os.path.join(os.path.realpath(cache), "")):
            raise ValueError(f"{name} is not below the plan's folder, so it is not in {store}")
        if os.path.exists(path):
            continue
        os.makedirs(os.path.dirname(path), exist_ok=True)
        part = f"{path}.{os.getpid()}.part"
        try:
            with files.open_input_stream(f"{base}/{name}") as source, open(part, "wb") as copy:
                shutil.copyfileobj(source, copy)
        except FileNotFoundError:
            os.path.exists(part) and os.remove(part)  # Its tasks say so.
        else:
            os.replace(part, path)


def words(drive):
    """The name of a drive, and the values of its settings: NAME:SETTING=VALUE,..."""
    name, _, settings = drive.partition(":")
    return [name, *(setting.partition("=")[2] for setting in settings.split(","))]


def from_store(batch):
    """The tasks of a batch, with the node's copies of their traces, profiles of drives and stacks."""
    # Spark removes this folder with the application.
    root = os.path.abspath(SparkFiles.getRootDirectory())
    cache = os.path.join(root, hashlib.sha256(store.encode()).hexdigest()[:16])
    rows = batch.to_pydict()
    profiles = [word for drive in rows["drive"] for word in words(drive) if "/" in word or word.endswith(".toml")]
    stacks = [stack for stack in rows["stack"] if stack is not None and stack.endswith(".toml")]
    traces = [trace for trace in rows["trace"] + rows["beside"] if trace is not None]
    fetch(sorted({*traces, *profiles, *stacks}), cache)
    folder = batch.schema.get_field_index("folder")
    return batch.set_column(folder, batch.schema.field(folder), pyarrow.array([cache] * batch.num_rows))


def run(batches):
    """Gives the results of the tasks in an iterator of record batches."""
    program = SparkFiles.get(worker)
    os.chmod(program, 0o755)
    process = subprocess.Popen([program, "worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    faults = []

    def feed():
        try:
            with process.stdin as pipe:
                writer = None
                for batch in batches:
                    if store is not None:
                        batch = from_store(batch)
                    if writer is None:
                        writer = pyarrow.ipc.new_stream(pipe, batch.schema)
                    writer.write_batch(batch)
                if writer is not None:
                    writer.close()
        except BrokenPipeError:
            pass  # The worker has ended, and its exit code says why.
        except Exception as fault:
            faults.append(fault)

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    try:
        with pyarrow.ipc.open_stream(process.stdout) as answers:
            yield from answers
        feeder.join()
        if faults:
            raise faults[0]
        if process.wait() != 0:
            raise RuntimeError(f"iocast worker ended with code {process.returncode}")
    finally:
        process.kill()
        process.wait()


spark = SparkSession.builder.getOrCreate()
planned = spark.read.parquet(tasks)
# Tasks stand by trace, so ranges of them are groups of traces; and the files of results follow one another.
grouped = planned.repartitionByRange(int(partitions), "task").sortWithinPartitions("task")
answered = grouped.mapInArrow(run, schema)
answered.write.mode("overwrite").option("compression", "zstd").parquet(results)
spark.stop()
