# The public names: each is imported from its module when it is first used (__init__.py).
from replication_lab.experiments._declared import experiment as experiment
from replication_lab.faults._links import OnLinks as OnLinks
from replication_lab.faults._nodes import OnNodes as OnNodes
from replication_lab.faults.fault import fault as fault
from replication_lab.model.core.errors import LabError as LabError
from replication_lab.model.core.proof import Proof as Proof
from replication_lab.model.core.verdict import Verdict as Verdict
from replication_lab.model.drill.fault import Setting as Setting
from replication_lab.model.experiment.case import Case as Case
from replication_lab.model.experiment.claim import Claim as Claim
from replication_lab.model.experiment.claim import claim as claim
from replication_lab.model.experiment.experiment import Experiment as Experiment
from replication_lab.model.experiment.experiment import Preset as Preset
from replication_lab.model.experiment.measuring import LoadOutcome as LoadOutcome
from replication_lab.model.experiment.quantities import errors as errors
from replication_lab.model.experiment.quantities import figure as figure
from replication_lab.model.experiment.quantities import lag as lag
from replication_lab.model.experiment.quantities import p50 as p50
from replication_lab.model.experiment.quantities import p95 as p95
from replication_lab.model.experiment.quantities import p99 as p99
from replication_lab.model.experiment.quantities import p999 as p999
from replication_lab.model.experiment.quantities import per_round_trip as per_round_trip
from replication_lab.model.experiment.quantities import rtt as rtt
from replication_lab.model.experiment.quantities import throughput as throughput
from replication_lab.model.experiment.quantities import total as total
from replication_lab.pytest_plugin.answers import Answer as Answer
from replication_lab.pytest_plugin.handles import Acting as Acting
from replication_lab.pytest_plugin.handles import LabLink as LabLink
from replication_lab.pytest_plugin.handles import LabNode as LabNode
from replication_lab.pytest_plugin.handles import RunningLab as RunningLab
from replication_lab.pytest_plugin.recorded import Drilled as Drilled
from replication_lab.pytest_plugin.recorded import Judged as Judged
from replication_lab.report.rows import DrillsSummary as DrillsSummary
from replication_lab.report.rows import ExperimentSummary as ExperimentSummary
from replication_lab.workloads.inserts import Inserts as Inserts
from replication_lab.workloads.inserts import timed as timed
from replication_lab.world.docker.lab import Lab as Lab
from replication_lab.world.docker.service import Node as Node
from replication_lab.world.mysql.server import Server as Server
from replication_lab.world.packets.link import RunningLink as RunningLink

VERSION: str
__all__: list[str]
