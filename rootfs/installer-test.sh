#!/bin/bash
# Catches: an archive that has another reference than the one asked for, so that it is pushed or loaded under a wrong name.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "FAILED: $*"; exit 1; }
mkdir -p "$folder/parts/tree/usr/install"
for file in parts/tree/usr/install/vmlinuz parts/tree/usr/install/initramfs rootfs.sqsh; do echo "$file" >"$folder/$file"; done
named() {  # REFERENCE TAG [NAME]: of the archive that NAME makes
  local said
  VERSION=v9.9.9 "$here/installer.sh" "$folder" "$folder/tar" "${@:3}" >"$folder/said"
  said=$(tar -xOf "$folder/tar" ./index.json | jq -r '.manifests[0].annotations | "\(.["io.containerd.image.name"]) \(.["org.opencontainers.image.ref.name"])"')
  [ "$said" = "$1 $2" ] || fail "it is named $said and not $1 $2"
  said=$(tar -xOf "$folder/tar" ./manifest.json | jq -r '.[0].RepoTags[0]')
  [ "$said" = "$1" ] || fail "docker load would name it $said and not $1"
}
named talos/installer:v9.9.9 v9.9.9
named registry.example.com:5000/installer:v9.9.9 v9.9.9 registry.example.com:5000/installer
named registry.example.com:5000/site/installer:v1 v1 registry.example.com:5000/site/installer:v1
echo "1 passed, 0 failed"
