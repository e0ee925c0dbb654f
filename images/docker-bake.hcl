# The lab's images. Build one (and only what it needs) from the root of the project:
#
#     docker buildx bake -f images/docker-bake.hcl mariadb
#
# Behind a proxy that inspects TLS, pass the CA bundle that trusts it; it is mounted for single steps and never stored:
#
#     docker buildx bake -f images/docker-bake.hcl \
#         --set '*.secrets=id=ca,src=/etc/ssl/certs/ca-certificates.crt' mysql-8-0

variable "BASE" {
  default = "replication-lab/base"
}

group "default" {
  targets = ["mariadb", "toxiproxy", "load"]
}

target "_on_base" {
  args = { BASE = BASE }
}

# Base of every database image: the entrypoint, the health check, the defaults of all servers.
target "_database" {
  inherits = ["_on_base"]
  contexts = { database = "images/database" }
}

target "mariadb" {
  inherits = ["_database"]
  context  = "images/mariadb"
  tags     = ["replication-lab/mariadb"]
}

# Tools with which the builds below fetch server binaries by Maven. Tagged, because Docker would keep an unnamed image.
target "maven" {
  inherits = ["_on_base"]
  context  = "images/maven"
  tags     = ["replication-lab/maven"]
}

# Base of the servers from archives: libraries, account, entrypoint, health check. Tagged for the same reason.
target "archived" {
  inherits = ["_database"]
  context  = "images/archived"
  tags     = ["replication-lab/archived"]
}

# The engines whose server comes from a Maven artifact. A target's name has a dash where the engine's has a dot.
target "from-archive" {
  matrix = {
    engine = [
      "mariadb-10.1", "mariadb-10.2", "mariadb-10.11",
      "mysql-5.5", "mysql-5.6", "mysql-5.7", "mysql-8.0",
    ]
  }
  name     = replace(engine, ".", "-")
  inherits = ["_database"]
  context  = "images/${engine}"
  contexts = { maven = "target:maven", archived = "target:archived" }
  tags     = ["replication-lab/${engine}"]
}

target "mysql" {
  inherits = ["_database"]
  context  = "images/mysql"
  tags     = ["replication-lab/mysql"]
}

target "toxiproxy" {
  inherits = ["_on_base"]
  context  = "images/toxiproxy"
  tags     = ["replication-lab/toxiproxy"]
}

target "sidecar" {
  inherits = ["_on_base"]
  context  = "images/sidecar"
  tags     = ["replication-lab/sidecar"]
}

target "spindle" {
  inherits = ["_on_base"]
  context  = "images/spindle"
  tags     = ["replication-lab/spindle"]
}

target "array" {
  inherits = ["_on_base"]
  context  = "images/array"
  tags     = ["replication-lab/array"]
}

target "arbiter" {
  inherits = ["_on_base"]
  context  = "images/arbiter"
  contexts = { guest = "images/vm/guest" }
  tags     = ["replication-lab/arbiter"]
}

# A virtual machine: the root of its guest is made from the server's image.
target "vm" {
  inherits = ["_on_base"]
  context  = "images/vm"
  contexts = { mariadb = "target:mariadb" }
  tags     = ["replication-lab/vm"]
}

target "load" {
  inherits = ["_on_base"]
  context  = "images/load"
  tags     = ["replication-lab/load"]
}

# Only `make bench` builds it.
target "sandbox" {
  inherits = ["_on_base"]
  context  = "images/sandbox"
  contexts = { maven = "target:maven", mysql-5-5 = "target:mysql-5-5" }
  tags     = ["replication-lab/sandbox"]
}
