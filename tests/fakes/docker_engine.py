"""A Docker engine that knows images by name, and loads archives as `docker load` does: every name in them is taken."""

import hashlib
import io
import json
import tarfile

from docker.errors import ImageNotFound


class Image:
    def __init__(self, labels=None, tags=(), engine=None):
        self.labels, self.tags, self.attrs = labels or {}, tags, {}
        self.id, self._engine = "", engine

    def tag(self, repository, tag="latest"):
        self._engine.known[f"{repository}:{tag}".removesuffix(":latest")] = self


class Engine:
    """A Docker engine as its client shows it: a version, and images by name."""

    def __init__(self, version="26.1.5+dfsg1", known=None):
        self._version, self.known, self.images = version, known or {}, self

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
