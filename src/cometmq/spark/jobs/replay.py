"""The job "replay": messages of a topic, a store or an archive go into a topic again.

Next: cometmq.spark.jobs.sending
"""

from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from cometmq.model.errors import SettingsError
from cometmq.spark.jobs.field import option
from cometmq.spark.jobs.job import Job, Report
from cometmq.spark.jobs.origin import FromOptions, plan, read_stream
from cometmq.spark.jobs.run import read_before, running
from cometmq.spark.jobs.sending import SENT_COLUMNS, Target, resent
from cometmq.spark.jobs.streaming import FlowOptions, drain

STATE_DEFAULT = "cometmq-jobs"


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(FromOptions, FlowOptions):
    """What goes where.

    Attributes:
        to_topic: where to.
        to_nameserver: of another cluster; empty: the one that is read, or `nameserver`.
        state: the folder for manifest and checkpoint.
    """

    to_topic: str = option("The topic that gets the messages.")
    to_nameserver: str = option("Nameservers of another cluster; else the same.", "")
    state: str = option("Folder for manifest and checkpoint.", STATE_DEFAULT, is_what=False)


def run(spark: SparkSession, options: ReplayOptions) -> Report:
    """Send messages of a topic, a store or an archive to a topic again.

    They keep their message ids, and the property REPLAY_OF says where each was read. A killed
    run goes on where it was and sends none twice.

    Raises:
        SettingsError: a topic would be replayed into itself without an end.
    """
    if options.follow and options.to_topic in options.topic.split(","):
        raise SettingsError("--follow would read what it sends: choose another --to-topic")
    if options.dry_run:
        return plan(options, read_before("replay", options, options.state))
    with running("replay", options, place=options.state) as this:
        target = Target(this, options.to_nameserver or options.nameserver, [options.to_topic])
        messages = read_stream(
            spark, options, rows_max=options.rows_max, columns=",".join(SENT_COLUMNS)
        )
        drain(resent(messages, f.lit(options.to_topic)), this, options, target.send)
    return Report(counts=this.manifest.counts)


JOB = Job("replay", ReplayOptions, run)
