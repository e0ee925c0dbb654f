#!/bin/sh
# Add Debian 13 beside Debian 12 as a source for single packages: the machine's own mirror, another suite, never preferred.
set -eu
source=$1 pin=$2

# Asked in this way apt tells its mirror also on a fresh machine, which has no package lists yet.
mirror=$(apt-get --print-uris update 2>/dev/null | sed -n "s|^'\(.*\)/dists/bookworm/InRelease'.*|\1|p" | head -n 1)
[ -n "$mirror" ] || { echo "no source of Debian 12 in this machine's apt configuration" >&2; exit 1; }

printf 'Types: deb\nURIs: %s\nSuites: trixie\nComponents: main\nSigned-By: %s\n' \
  "$mirror" /usr/share/keyrings/debian-archive-keyring.gpg >"$source"
printf 'Package: *\nPin: release n=trixie\nPin-Priority: 100\n' >"$pin"
