"""Runs the tasks of `iocast sweep` on Apache Spark, each partition through a process `iocast worker`."""

import os
import subprocess
import sys
import threading

import pyarrow
from pyspark import SparkFiles
from pyspark.sql import SparkSession

tasks, results, worker, partitions, schema = sys.argv[1:]


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
