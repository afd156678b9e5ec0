#!/bin/bash
# The last files of a release:  release-index.sh RELEASE VERSION COMMIT REPOSITORY   (release.sh calls it)
#   release.pub     the public half of KEY
#   index.json      every other file with its kind, platform, flavour, architecture, size and SHA-256; the names of the installer
#   SHA256SUMS      of all these, for sha256sum -c
#   SHA256SUMS.sig  the signature of that by KEY, in base64
# A file of an unknown kind is an error: so nothing is given away by accident. REPOSITORY is empty when no registry was set.
set -euo pipefail
export LC_ALL=C
release=$1 version=$2 commit=$3 repository=$4
here=$(cd "$(dirname "$0")" && pwd)
. "$here/release-sign.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$release"
openssl pkey -in "$KEY" -pubout -out release.pub
chmod 0644 release.pub

describe() {  # PATH: kind, platform, flavour and architecture, with - for none
  local name=${1##*/} flavour=- arch=-
  case $1 in cloud/*|metal/*) flavour=${1%%/*} ;; esac
  [[ ! $name =~ [-](amd64|arm64)(\.|$) ]] || arch=${BASH_REMATCH[1]}
  case $1 in
    talosctl-linux-*.spdx.json|*/sbom-*.spdx.json) echo "contents - $flavour $arch" ;;
    talosctl-linux-*) echo "client - - $arch" ;;
    talosctl-manual.tar) echo "manual - - -" ;;
    RELEASE-NOTES.md) echo "notes - - -" ;;
    release.pub) echo "public-key - - -" ;;
    symbols/*.symbols.gz) echo "symbols - - -" ;;
    installer/*) echo "installer-layout - - -" ;;
    */vmlinux-*) echo "kernel - $flavour $arch" ;;
    */initramfs-*) echo "initramfs - $flavour $arch" ;;
    */rootfs-*.sqsh) echo "root - $flavour $arch" ;;
    */talos-*.iso) echo "cd - $flavour $arch" ;;
    */installer-*.tar) echo "installer - $flavour $arch" ;;
    */installer-*.tar.sig) echo "signature - $flavour $arch" ;;
    */*-*.pxe/*) name=${1#*/}; name=${name%%/*}; echo "network-boot ${name%-*} $flavour ${name##*-}" | sed 's/\.pxe$//' ;;
    */*-a??64.*) echo "disk ${name%-a??64.*} $flavour $arch" ;;
    *) echo "release: $1 is of no kind that a release has" >&2; return 1 ;;
  esac
}
find . -type f ! -name index.json ! -name 'SHA256SUMS*' -printf '%P\n' | sort >"$work/files"
[ ! -e installer/index.json ] || printf 'installer/index.json\n' | sort -o "$work/files" "$work/files" -
while read -r file; do
  described=$(describe "$file")
  printf '%s %s %s %s\n' "$described" "$(stat -c %s "$file")" "$(sha256sum <"$file" | cut -d' ' -f1)" "$file"
done <"$work/files" >"$work/rows"
tags=$(jq -c '[.manifests[] | {key: .annotations["org.opencontainers.image.ref.name"], value: .digest} | select(.key | endswith(".sig") | not)] | from_entries' installer/index.json)
jq -Rn --arg version "$version" --arg commit "$commit" --arg repository "$repository" --argjson tags "$tags" '
  {schema: 1, version: $version, commit: $commit,
   installer: {repository: (if $repository == "" then null else $repository end), layout: "installer", tags: $tags},
   checksums: "SHA256SUMS", signature: "SHA256SUMS.sig",
   files: [inputs | split(" ") | {file: .[6:] | join(" "), kind: .[0]}
     + (if .[1] != "-" then {platform: .[1]} else {} end) + (if .[2] != "-" then {flavour: .[2]} else {} end)
     + (if .[3] != "-" then {architecture: .[3]} else {} end) + {size: .[4] | tonumber, sha256: .[5]}]}' <"$work/rows" >index.json
{ cat "$work/files"; echo index.json; } | sort | while read -r file; do sha256sum "$file"; done >SHA256SUMS
sign SHA256SUMS >SHA256SUMS.sig
echo >>SHA256SUMS.sig
