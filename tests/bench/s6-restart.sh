#!/bin/bash
# The peer of restart-bench: the same child under s6-supervise, killed and timed in the same way.
#   s6-restart.sh OUT [KILLS]     inside the bench root; OUT has restart-bench and restart-child
# s6-supervise starts nothing twice within a second, so each child is left alone for a little longer.
set -euo pipefail
out=$1 kills=${2:-40}
folder=$(mktemp -d)
name=s6-restart-$$
"$out/restart-bench" watch "$name" "$kills" 1100 >"$folder/answer" &
watching=$!
mkdir "$folder/service"
cp "$out/restart-child" "$folder/service/run"
until grep -q "@$name\$" /proc/net/unix; do
  kill -0 "$watching" || exit 1
  sleep 0.05
done
RESTART_BENCH=$name s6-supervise "$folder/service" &
supervisor=$!
status=0
wait "$watching" || status=$?
s6-svc -dx "$folder/service" || true   # its child is ended, then it ends
wait "$supervisor" || true
cat "$folder/answer"
rm -rf "$folder"
exit "$status"
