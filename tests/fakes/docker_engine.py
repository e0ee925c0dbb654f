"""Docker engines of the fake world.

`Engine` knows images by name, and loads archives as `docker load` does: every name in them is taken. `Holding` has
containers, networks and volumes.
"""

import contextlib
import hashlib
import io
import json
import tarfile
from types import SimpleNamespace

from docker.errors import ImageNotFound, NotFound


class Image:
    def __init__(self, labels=None, tags=(), engine=None):
        self.labels, self.tags, self.attrs = labels or {}, tags, {}
        self.id, self._engine = "", engine

    def tag(self, repository, tag="latest"):
        self._engine.known[f"{repository}:{tag}".removesuffix(":latest")] = self


class Engine:
    """A Docker engine as its client shows it: a version, and images by name."""

    site = ""

    def __init__(self, version="26.1.5+dfsg1", known=None):
        self._version, self.known, self.images = version, known or {}, self
        self.api = SimpleNamespace(images=self._listed)
        self.networks = self.volumes = SimpleNamespace(list=lambda **_: [])
        self.containers = SimpleNamespace(list=lambda **_: [])

    def _listed(self):
        return [{"RepoTags": list(each.tags) or None, "Labels": each.labels or None} for each in self.known.values()]

    def version(self):
        return {"Version": self._version, "Arch": "amd64"}

    def ping(self):
        return True

    def close(self):
        pass

    def info(self):
        return {"DockerRootDir": "/nowhere/docker"}

    def get(self, name):
        name = name if name in self.known else name.removesuffix(":latest")
        if name not in self.known:
            raise ImageNotFound(name)
        return self.known[name]

    def list(self):
        return list(self.known.values())

    def remove(self, tag, force=False):
        del self.known[tag.removesuffix(":latest")]

    def load(self, archive):
        """Take every image of an archive, under every name that it claims."""
        content = archive.read() if hasattr(archive, "read") else b"".join(archive)
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            for entry in json.load(tar.extractfile("manifest.json")):
                text = tar.extractfile(entry["Config"]).read()
                config = json.loads(text)
                image = Image(config["config"].get("Labels"), entry["RepoTags"], self)
                image.id = f"sha256:{hashlib.sha256(text).hexdigest()}"
                image.attrs = {
                    "Architecture": config["architecture"],
                    "RootFS": {"Layers": config["rootfs"]["diff_ids"]},
                }
                for layer in entry["Layers"]:
                    assert tar.extractfile(layer) is not None
                for name in entry["RepoTags"]:
                    self.known[name.removesuffix(":latest")] = image


class Build(contextlib.nullcontext):
    """A builder of images that has said its lines and ended."""

    def __init__(self, status=0, stderr=()):
        super().__init__(self)
        self.stderr, self.returncode = stderr, status


# --- an engine with containers, networks and volumes ------------------------------------------------------------------

CONFIG = {
    "Env": ["MYSQL_ROOT_PASSWORD=secret=1", "LAB_PASSWORD=secret=2", "LAB_REPLICATOR_PASSWORD=secret=3"],
    "Image": "replication-lab/mariadb",
}


class Thing:
    """A container, network or volume by its labels. A label that is None is left out."""

    def __init__(self, project, owner, service="source", folder="/lab/compose", kind="container", **more):
        more_labels, engine = more.pop("labels", {}), more.pop("engine_", "mariadb")
        found = {
            "replication-lab": owner,
            "com.docker.compose.project": project,
            "com.docker.compose.service": service,
            "com.docker.compose.project.config_files": f"{folder}/semisync.yaml",
            "com.docker.compose.project.working_dir": folder,
            **({"replication-lab.engine": engine} if service == "source" else {}),
            **more_labels,
        }
        self.labels = {name: value for name, value in found.items() if value is not None}
        self.kind, self.ports, self.status, self.removed = kind, {}, "running", False
        self.name = self.id = f"{project}-{service}-1"
        self.attrs = {"Labels": self.labels, "Config": CONFIG, "State": {}, "Image": "sha256:lab", **more}

    def reload(self):
        self._refuse_gone()

    def remove(self, **options):
        self._refuse_gone()
        self.removed, self.options = True, options

    def _refuse_gone(self):
        if self.removed:
            raise NotFound(self.name)


class Holding:
    """A client of an engine that holds things; `images` maps an image's id to its labels.

    `between` is called after each listing, as another command acts between two requests of this one.
    """

    def __init__(self, things, images=None, between=lambda: None):
        self.things, self.of_images, self.between = things, images or {}, between
        self.containers, self.networks, self.volumes = (
            Listing(self, kind) for kind in ("container", "network", "volume")
        )
        self.api = self

    def images(self, all=False, filters=None):
        found = [{"Id": each, "Labels": labels, "RepoTags": None} for each, labels in self.of_images.items()]
        return [each for each in found if not filters or filters["label"] in (each["Labels"] or {})]


class Listing:
    """`list` filters by label as the engine does."""

    def __init__(self, engine, kind):
        self.engine, self.kind = engine, kind

    def list(self, all=False, filters=None, ignore_removed=False, names=None):
        wanted = (filters or {}).get("label", [])
        found = [
            each
            for each in self.engine.things
            if each.kind == self.kind
            and not each.removed
            and matches(each.labels, [wanted] if isinstance(wanted, str) else wanted)
            and (names is None or each.name in names)
        ]
        self.engine.between()
        return found


def matches(labels, wanted):
    """Return whether labels have each of these keys, or keys with values."""
    return all(
        labels.get(key) == value if equals else key in labels
        for key, equals, value in (one.partition("=") for one in wanted)
    )
