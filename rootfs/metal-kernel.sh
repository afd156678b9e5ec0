#!/bin/bash
# Prints the path of Debian's kernel package for machines (inside the build root), for the architecture in ARCH (default:
# amd64), fetched on the first call. It is not in the build root, because most images do without its 100 MiB.
set -euo pipefail
umask 022
arch=${ARCH:-amd64}
folder=/cache/kernel
[ "$arch" = amd64 ] || folder+=-$arch
found=($folder/linux-image-*.deb)
if [ ! -e "${found[0]}" ]; then
  printf 'image: fetching the kernel for machines (about 100 MiB)\n' >&2
  state=$(mktemp -d)
  trap 'rm -rf "$state"' EXIT
  chmod 0755 "$state"
  mkdir -p "$state/lists/partial" "$state/archives/partial" "$folder"
  options=(-qq -o Dir::State::lists="$state/lists" -o Dir::Cache="$state" -o APT::Sandbox::User=root
    -o APT::Architecture="$arch" -o APT::Architectures="$arch")
  apt-get "${options[@]}" update >&2
  name=$(apt-cache "${options[@]}" depends "linux-image-$arch" | sed -n 's/.*Depends: \(linux-image-.*\)/\1/p')
  (cd "$state" && apt-get "${options[@]}" download "$name" >&2)
  mv "$state"/linux-image-*.deb "$folder/"
  found=($folder/linux-image-*.deb)
fi
printf '%s\n' "${found[0]}"
