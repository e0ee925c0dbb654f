"""The data beside an experiment, with the citation of what it compares with."""

from pathlib import Path

from replication_lab.model.experiment.published import Data, parse_data
from replication_lab.world import catalogue


def data_beside(module: str) -> Data:
    """Return the data in the YAML file beside a module, given by its `__file__`."""
    return parse_data(Path(module).with_suffix(".yaml").read_bytes(), Path(module).stem).citing(catalogue.sources())
