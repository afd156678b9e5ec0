#!/bin/bash
# Catches: a variable of the user's that moves the build folder or is not passed on, or one of the host's that is; a target that refuses ARCH=arm64 without
# saying which ones take it; a target that the head of the Makefile does not list; programs without man pages, an image without symbols. Nothing is built (make -n).
set -euo pipefail
cd "$(dirname "$0")/.."
fail() { echo "FAILED: $*"; exit 1; }
dry() { env -u MAKEFLAGS -u MAKEOVERRIDES -u MAKELEVEL -u ARCH -u SAN make -n --no-print-directory "$@" 2>&1; }

name=registry.example.com:5000/site/installer:v1
[ "$(dry installer-image "NAME=$name" | tail -n 1)" = "NAME=\"$name\" rootfs/customize.sh $PWD/build/root $PWD /build/out" ] ||
  fail "NAME of the command line: $(dry installer-image "NAME=$name" | tail -n 1)"
[ "$(NAME=host dry installer-image | tail -n 1)" = "NAME=\"\" rootfs/customize.sh $PWD/build/root $PWD /build/out" ] ||
  fail "NAME of the environment: $(NAME=host dry installer-image | tail -n 1)"
[[ "$(REGISTRY=host dry release-push | tail -n 1)" == *'release-push.sh /build/release "" 4<'* ]] ||
  fail "REGISTRY of the environment: $(REGISTRY=host dry release-push | tail -n 1)"
[[ "$(dry release-push REGISTRY=registry.example.com/site | tail -n 1)" == *'/build/release "registry.example.com/site" 4<'* ]] ||
  fail "REGISTRY of the command line: $(dry release-push REGISTRY=registry.example.com/site | tail -n 1)"
[[ "$(dry release KEY=/keys/mine PLATFORMS='metal aws' | tail -n 2)" == *'PLATFORMS="metal aws"'*'release.sh /build/release 3<"/keys/mine"' ]] ||
  fail "KEY and PLATFORMS of a release: $(dry release KEY=/keys/mine PLATFORMS='metal aws' | tail -n 2)"
said=$(dry ARCH=arm64 image iso) && fail "ARCH=arm64 makes an iso"
for target in all programs symbols image installer-image; do
  [[ $said == *" $target"[\ .]* ]] || fail "the refusal of ARCH=arm64 does not name $target: $said"
  dry ARCH=arm64 "$target" >/dev/null || fail "ARCH=arm64 is refused by $target"
done
[[ "$(dry programs)" == *' man-pages '* ]] || fail "the programs come without man pages"
for target in image installer-image; do
  [[ "$(dry "$target")" == *'rootfs/symbols.sh /build/out /build/symbols'* ]] || fail "$target comes without symbols"
done
head=$(sed '/^[^#]/q' Makefile)
for target in $(sed -n 's/^\.PHONY: all//p' Makefile); do
  grep -qE "^#   make ([a-z-]+, )*$target( |,)" <<<"$head" || fail "the head of the Makefile does not list $target"
done
echo "1 passed, 0 failed"
