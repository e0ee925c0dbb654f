"""What building says when something is missing or wrong."""

import base64
import io
import json
import subprocess
import tarfile
import zipfile

import pytest
from replication_lab.world import catalogue
from replication_lab.world.docker import bake_file

from tests.images.conftest import PATIENCE_S, build

IMAGES = catalogue.IMAGES
# Stands in for Maven, which would fetch a file; the one that is there is made by the test.
NO_MAVEN = """
printf '#!/bin/sh\n' >/usr/local/bin/mvn && chmod +x /usr/local/bin/mvn
mkdir -p /root/.m2/repository/org/example/server/1 && cd /root/.m2/repository/org/example/server/1
"""
# "Fetches" a file that is not what the image was written for.
WRONG_FILE = (
    NO_MAVEN
    + """
echo wrong >server-1-linux.zip
unpack-artifact org.example:server:1:zip:linux 1111 2222 /dev/null /opt/server; code=$?
ls; exit $code
"""
)
# The server lies in a folder of the jar, and in an archive of its own.
UNPACK_JAR = (
    NO_MAVEN
    + """
echo "$JAR" | base64 --decode >server-1.jar
printf '# a comment\nbin/mysqld\nshare/*\n' >/tmp/files.txt
set -- $(sha1sum server-1.jar) && sha1=$1 && set -- $(sha256sum server-1.jar) && sha256=$1
for inside in top/linux server.tar.gz; do
    unpack-artifact org.example:server:1:jar "$sha1" "$sha256" /tmp/files.txt "/opt/$inside" "$inside" || exit
    (cd "/opt/$inside" && find . -type f | sort | tr '\n' ' ' && test -x bin/mysqld && echo executable) || exit
done
"""
)
# What `docker images` may print of an engine, base and all, in MB.
LARGEST_MB = {"mysql-5.5": 200, "mysql-8.0": 420}
SERVER_FILES = ("bin/mysqld", "bin/rubbish", "share/errmsg.sys")


def jar():
    """Return a server's files in a folder and in an archive, as Maven's artifacts contain them."""
    archive, whole = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for name in SERVER_FILES:
            tar.addfile(tarfile.TarInfo(name))
    with zipfile.ZipFile(whole, "w") as packed:
        packed.writestr("server.tar.gz", archive.getvalue())
        for name in SERVER_FILES:
            packed.writestr(f"top/linux/{name}", "")
    return whole.getvalue()


def test_base_names_the_missing_tool(tmp_path):
    """Without mmdebstrap nothing is written, and the message says what to install."""
    done = subprocess.run(
        ["/bin/sh", IMAGES / "base" / "make"], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )

    assert (1, "") == (done.returncode, done.stdout)
    assert "mmdebstrap was not found. Install it: sudo apt-get install" in done.stderr


def test_archive_with_a_wrong_checksum_is_refused_and_removed(loose_image):
    """A fetched file that is not the expected one stops the build, with both sums, and is not kept for the next try."""
    container = loose_image("replication-lab/maven", "bash", "-c", WRONG_FILE)

    assert 1 == container.wait(timeout=PATIENCE_S)["StatusCode"]
    log = container.logs().decode()
    assert "is not the file this image was written for: sha1 found" in log
    assert "expected 1111" in log
    assert "server-1-linux.zip" not in log


def test_a_server_is_taken_out_of_a_folder_or_an_archive_in_the_artifact(loose_image):
    """Only what is listed, without the folder's name, and executable although a jar knows no such bit."""
    environment = {"JAR": base64.b64encode(jar()).decode()}
    container = loose_image("replication-lab/maven", "bash", "-c", UNPACK_JAR, environment=environment)

    assert 0 == container.wait(timeout=PATIENCE_S)["StatusCode"], container.logs().decode()
    assert ["./bin/mysqld ./share/errmsg.sys executable"] * 2 == container.logs().decode().splitlines()


@pytest.mark.parametrize("name", LARGEST_MB)
def test_an_engine_from_an_archive_is_as_small_as_promised(client, name):
    """Only what a node needs is kept: with a debugger's symbols either image would be too large."""
    image = f"replication-lab/{name}"
    build(image)

    assert client.images.get(image).attrs["Size"] <= LARGEST_MB[name] * 1_000_000


def test_the_bake_file_is_read_as_docker_reads_it(client):
    """The targets and folders of every image are those that `docker buildx bake --print` prints."""
    names = list(bake_file.targets())
    command = ["docker", "buildx", "bake", "-f", str(bake_file.path()), "--print", *names]
    printed = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["target"]

    def used(name):
        contexts = printed[name].get("contexts", {}).values()
        return {name}.union(*(used(each[7:]) for each in contexts if each.startswith("target:")))

    def folders(name):
        found = [printed[name]["context"], *printed[name].get("contexts", {}).values()]
        return {each for each in found if each.startswith("images/")}

    assert sorted(printed) == sorted(names)
    for name in names:
        assert set(bake_file.targets_of(name)) == used(name)
        assert bake_file.folders_of(name) == set().union(*map(folders, used(name)))
