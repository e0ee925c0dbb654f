# The lab's images. Build one (and only what it needs) from the root of the project:
#
#     docker buildx bake -f images/docker-bake.hcl mariadb
#
# Behind a proxy that inspects TLS, hand in the bundle that trusts it; it is mounted for single steps and never stored:
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

# What every database image shares: the entrypoint, the health check, the defaults of all servers.
target "_database" {
  inherits = ["_on_base"]
  contexts = { database = "images/database" }
}

target "mariadb" {
  inherits = ["_database"]
  context  = "images/mariadb"
  tags     = ["replication-lab/mariadb"]
}

# Where the builds below fetch server binaries by Maven; tools only. Tagged, or the engine would keep it without a name.
target "maven" {
  inherits = ["_on_base"]
  context  = "images/maven"
  tags     = ["replication-lab/maven"]
}

target "mysql-8-0" {
  inherits = ["_database"]
  context  = "images/mysql-8.0"
  contexts = { maven = "target:maven" }
  tags     = ["replication-lab/mysql-8.0"]
}

target "mysql-5-5" {
  inherits = ["_database"]
  context  = "images/mysql-5.5"
  contexts = { maven = "target:maven" }
  tags     = ["replication-lab/mysql-5.5"]
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
