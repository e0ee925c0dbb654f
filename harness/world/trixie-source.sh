#!/bin/sh
# Add Debian 13 beside Debian 12 as a source for single packages: the machine's own mirror, another suite, never preferred.
set -eu
source=$1 pin=$2

mirror=$(apt-get indextargets --format '$(CREATED_BY) $(SITE) $(RELEASE)' 'Origin: Debian' |
  awk '$1 == "Packages" && $3 == "bookworm" { print $2; exit }')
[ -n "$mirror" ] || { echo "no source of Debian 12 in this machine's apt configuration; apt-get update first?" >&2; exit 1; }

printf 'Types: deb\nURIs: %s\nSuites: trixie\nComponents: main\nSigned-By: %s\n' \
  "$mirror" /usr/share/keyrings/debian-archive-keyring.gpg >"$source"
printf 'Package: *\nPin: release n=trixie\nPin-Priority: 100\n' >"$pin"
