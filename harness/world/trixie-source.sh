#!/bin/sh
# Add Debian 13 beside Debian 12 as a source for single packages: the machine's own mirror, another suite, never preferred.
set -eu
source=$1 pin=$2

entries=$(apt-get indextargets --format '$(CREATED_BY) $(SITE) $(RELEASE) $(SIGNED_BY)' 'Origin: Debian' |
  awk '$1 == "Packages" && $3 == "bookworm" { print $2, $4; exit }')
[ -n "$entries" ] || { echo "no source of Debian 12 in this machine's apt configuration" >&2; exit 1; }
mirror=${entries%% *} key=${entries#* }

printf 'Types: deb\nURIs: %s\nSuites: trixie\nComponents: main\nSigned-By: %s\n' \
  "$mirror" "${key:-/usr/share/keyrings/debian-archive-keyring.gpg}" >"$source"
printf 'Package: *\nPin: release n=trixie\nPin-Priority: 100\n' >"$pin"
