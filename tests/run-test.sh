#!/bin/bash
# Catches: a failed step of `make test` that keeps the later ones from running, or that is not listed at the end; an exit
# status of 0 after it; a last line that is not a summary as ctest's. All programs that run.sh starts are models.
set -euo pipefail
run=$(cd "$(dirname "$0")" && pwd)/run.sh
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
fail() { echo "FAILED: $*"; exit 1; }
model() {  # model FILE, its text on stdin; `broken NAME` in it ends it if that step is to fail
  mkdir -p "$work/$(dirname "$1")"
  { echo '#!/bin/bash'; echo 'broken() { case " $BROKEN " in *" $1 "*) exit 1 ;; esac; }'; cat; } >"$work/$1"
  chmod 0755 "$work/$1"
}
model tests/makefile-test.sh <<<'broken makefile'
model tests/run-test.sh <<<''
model rootfs/kubernetes/make.sh <<<'broken kubernetes; echo kubectl build/cache/kubectl; echo images build/cache/images'
model tests/clients/make.sh <<'MODEL'
case $BROKEN in *kubernetes*) ;; *) until [ -e "$OUT/kubernetes.found" ]; do :; done ;; esac
broken clients
echo program
MODEL
model bin/make <<<'[ "${*: -1}" != iso ] || broken image'
model rootfs/enter.sh <<'MODEL'
passes() { echo "100% tests passed, 0 tests failed out of $1"; }
fails() { echo "90% tests passed, $1 tests failed out of $2"; exit 8; }
case "$*" in
  *ninja*) broken build ;;
  *check.sh*) broken check ;;
  *lint.sh*) broken lint ;;
  *ctest*unit*) case $BROKEN in *units*) fails 2 20 ;; esac; passes 20 ;;
  *ctest*machine*) case $BROKEN in *machines*) fails 1 10 ;; esac; passes 10 ;;
esac
MODEL
mkdir "$work/out"
ends() {  # ends BROKEN STATUS LAST-LINE "step that failed"…
  local status=0 expected step
  CHECKOUT=$work ROOT=$work/root OUT=$work/out INNER=/build/out SAN='' HOURS=1 BROKEN=$1 PATH=$work/bin:$PATH \
    "$run" test >"$work/log" 2>&1 || status=$?
  [ "$status" = "$2" ] || fail "with broken $1: exit status $status: $(cat "$work/log")"
  [ "$(tail -n 1 "$work/log")" = "$3" ] || fail "with broken $1: the last line is $(tail -n 1 "$work/log")"
  expected=$(for step in "${@:4}"; do echo "$step"; done)
  [ "$(sed -n 's/^== FAILED: \([a-zA-Z ]*[a-zA-Z]\).*/\1/p' "$work/log")" = "$expected" ] ||
    fail "with broken $1: $(grep FAILED "$work/log")"
}
ends '' 0 '100% tests passed, 0 tests failed out of 40'
ends 'makefile units lint' 1 '87% tests passed, 5 tests failed out of 40' 'targets and variables of make' 'unit tests' lint
ends 'check clients machines' 1 '90% tests passed, 4 tests failed out of 40' image 'clients in Go' machines
ends kubernetes 1 '97% tests passed, 1 tests failed out of 40' Kubernetes
ends image 1 '96% tests passed, 1 tests failed out of 28' image
ends build 1 '66% tests passed, 1 tests failed out of 3' build
echo "1 passed, 0 failed"
