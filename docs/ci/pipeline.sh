#!/bin/sh
# Runs one command of the lab in a pipeline and leaves its report in lab-report/; docs/ci.md explains it.
#
#     pipeline.sh drill async --drill cut-link
#
# LAB               the lab's command; by default the one of the checkout that this script is in
# LAB_CACHE         folder for archives of the images, which the pipeline keeps; empty for none
# LAB_CACHE_SHA256  what `lab images save` printed last; without it the content of the images is not verified
# LAB_ENGINES       engines whose images are kept in it, separated by spaces
# LAB_TOPOLOGIES    topologies that need further images, separated by spaces
# LAB_BASELINE      file of `lab report --format baseline`, or folder of such files, to compare the run with
# LAB_MARGIN        how much worse than the baseline a figure may be; 10% if empty
# LAB_UNKNOWN       pass: a verdict UNKNOWN ends with status 0
# LAB_INSTALL       no: install nothing that is missing on this machine; yes if empty
set -eu
export LAB_INSTALL="${LAB_INSTALL:-yes}"
lab=${LAB:-$(dirname "$0")/../../lab}
report="lab-report"

if [ $# = 0 ]; then
  printf 'error: no command\nexpected: a command of the lab\nnext: %s drill async --drill cut-link\n' "$0" >&2
  exit 2
fi

# An archive that is current is kept, an old one is replaced.
keep_images() {
  for topology in ${LAB_TOPOLOGIES:-}; do
    set -- "$@" --topology "$topology"
  done
  # shellcheck disable=SC2086 # several names in one variable
  "$lab" images save "$LAB_CACHE" ${LAB_ENGINES:-} "$@"
}

if [ -n "${LAB_CACHE:-}" ]; then
  [ ! -d "$LAB_CACHE" ] || "$lab" images load "$LAB_CACHE" ${LAB_CACHE_SHA256:+--sha256 "$LAB_CACHE_SHA256"} ||
    echo "building the images" >&2
  keep_images
fi

latest() {
  "$lab" report latest --open 2>/dev/null || true
}

before=$(latest)
code=0
"$lab" "$@" || code=$?
after=$(latest)
rm -rf "$report"
mkdir "$report"
if [ -z "$after" ] || [ "$after" = "$before" ]; then
  echo "**No run was recorded**: exit code $code" | tee "$report/verdicts.md"
  # A command that recorded nothing, such as --help, has no verdict to be green for, and none that is unknown.
  code=2
else
  folder=$(dirname "$after")
  cp "$folder"/* "$report/"
  "$lab" report "$folder" --format markdown >"$report/verdicts.md"
  if [ -n "${LAB_BASELINE:-}" ]; then
    compared=0
    "$lab" compare "$LAB_BASELINE" "$folder" --margin "${LAB_MARGIN:-10%}" --format markdown >>"$report/verdicts.md" || compared=$?
    # A failure is worse than a finding, which is worse than something that is not known.
    case $code$compared in
      *2*) code=2 ;;
      *1*) code=1 ;;
      *3*) code=3 ;;
    esac
  fi
  cat "$report/verdicts.md"
fi
if [ "$code" = 3 ] && [ "${LAB_UNKNOWN:-fail}" = pass ]; then
  echo "a verdict is UNKNOWN; LAB_UNKNOWN=pass lets it pass" >&2
  exit 0
fi
exit "$code"
