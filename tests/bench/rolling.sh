#!/bin/bash
# An upgrade of three control planes and two workers in containers, with Kubernetes, under a client that writes twice a
# second through the shared address:  rolling.sh CHECKOUT OUT FIGURES KUBECTL IMAGES
# Appends to FIGURES (JSON lines). The test of it measures: tests/kubernetes/rolling-upgrade-test.cc, its first run.
set -euo pipefail
checkout=$1 json=$3 kubectl=$4 images=$5
inner=/build/$(basename "$2")
root=${ROOT:-$checkout/build/root}
. "$checkout/tests/bench/figure.sh"
cost=$checkout/build/bench/rolling.json
rm -f "$cost"
# In the build root the checkout's build/cache is /cache.
"$checkout/rootfs/enter.sh" "$root" "$checkout" env ROLLING_FIGURES=/build/bench/rolling.json ROLLING_UPGRADES= GTEST_FILTER="*ThereAndBack*" \
  KUBECTL="/cache${kubectl#*build/cache}" KUBERNETES_IMAGES="/cache${images#*build/cache}" \
  /usr/bin/ctest --test-dir "$inner" -R '^rolling-upgrade$' --output-on-failure >"$checkout/build/bench/rolling.log" ||
  { tail -50 "$checkout/build/bench/rolling.log" >&2; exit 1; }
cost() { jq "$1" "$cost"; }
name="rolling upgrade of 3+2 with a writer"
figure "$name: all of it" s "$(cost '.seconds | round')" ""
for step in fetch plan wait drain write away trial; do
  figure "$name: share of $step" % "$(cost "100 * (.steps.$step // 0) / .seconds | round")" ""
done
figure "$name: writes that failed" "of $(cost .calls)" "$(cost .failed)" ""
figure "$name: writes that failed twice" "of $(cost .calls)" "$(cost .lost)" 0
figure "$name: the longest time without an answered write" s "$(cost '.longestS * 10 | round / 10')" 1
figure "$name: changes of etcd's leader" "" "$(cost .leaderChanges)" 3
figure "$name: containers restarted beside the drained" "" "$(cost .podsRestarted)" 0
