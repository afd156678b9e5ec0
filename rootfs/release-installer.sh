#!/bin/bash
# The installer images of a release as one OCI layout, with signatures:
#   release-installer.sh RELEASE REPOSITORY VERSION FLAVOURS ARCHES   (release.sh calls it)
# RELEASE/installer gets, of the archives RELEASE/<flavour>/installer-<arch>.tar, these tags:
#   VERSION-<flavour>   the image of one architecture, or with several an index of them
#   VERSION             the same as VERSION-metal, whose drivers are those of all machines; without it, as the first flavour
#   sha256-<hex>.sig    the signature of the image or index with that digest, where cosign puts it and nodes look for it
# Beside each archive is its signature. release-push.sh copies the tags to a registry.
set -euo pipefail
export LC_ALL=C
release=$1 repository=$2 version=$3 flavours=$4 arches=$5
here=$(cd "$(dirname "$0")" && pwd)
. "$here/release-sign.sh"
layout=$release/installer
mkdir -p "$layout/blobs/sha256"
echo '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
readonly manifest_type=application/vnd.oci.image.manifest.v1+json index_type=application/vnd.oci.image.index.v1+json
: >"$work/tags"

put() {  # FILE MEDIA-TYPE: copies it to its digest; prints its descriptor
  local sum
  sum=$(sha256sum <"$1" | cut -d' ' -f1)
  install -m 0644 "$1" "$layout/blobs/sha256/$sum"
  jq -cn --arg type "$2" --arg digest "sha256:$sum" --argjson size "$(stat -c %s "$1")" '{mediaType: $type, digest: $digest, size: $size}'
}
tag() {  # NAME DESCRIPTOR
  jq -c --arg name "$1" '. + {annotations: {"org.opencontainers.image.ref.name": $name}}' <<<"$2" >>"$work/tags"
}
# A manifest whose layer is the statement "this digest has this name", with the signature beside it.
signature() {  # DESCRIPTOR
  local digest config layer
  digest=$(jq -r .digest <<<"$1")
  jq -cjn --arg name "$repository" --arg digest "$digest" '{critical: {identity: {"docker-reference": $name},
    image: {"docker-manifest-digest": $digest}, type: "cosign container image signature"}, optional: null}' >"$work/payload"
  layer=$(put "$work/payload" application/vnd.dev.cosign.simplesigning.v1+json |
    jq -c --arg signature "$(sign "$work/payload")" '. + {annotations: {"dev.cosignproject.cosign/signature": $signature}}')
  jq -cn --arg layer "$(jq -r .digest <<<"$layer")" '{architecture: "", os: "", config: {}, rootfs: {type: "layers", diff_ids: [$layer]}}' >"$work/config"
  config=$(put "$work/config" application/vnd.oci.image.config.v1+json)
  jq -cn --arg type "$manifest_type" --argjson config "$config" --argjson layer "$layer" \
    '{schemaVersion: 2, mediaType: $type, config: $config, layers: [$layer]}' >"$work/manifest"
  tag "${digest/:/-}.sig" "$(put "$work/manifest" "$manifest_type")"
}

plain=
for flavour in $flavours; do
  : >"$work/images"
  for arch in $arches; do
    archive=$release/$flavour/installer-$arch.tar
    sign "$archive" >"$archive.sig"
    tar -xf "$archive" -C "$layout" ./blobs
    image=$(tar -xOf "$archive" ./index.json | jq -c '.manifests[0] | del(.annotations)')
    jq -c --arg arch "$arch" '. + {platform: {architecture: $arch, os: "linux"}}' <<<"$image" >>"$work/images"
    signature "$image"
  done
  if [ "$(wc -l <"$work/images")" -gt 1 ]; then
    jq -cs --arg type "$index_type" '{schemaVersion: 2, mediaType: $type, manifests: .}' "$work/images" >"$work/index"
    image=$(put "$work/index" "$index_type")
    signature "$image"
  fi
  tag "$version-$flavour" "$image"
  if [ -z "$plain" ] || [ "$flavour" = metal ]; then plain=$image; fi
done
tag "$version" "$plain"
jq -cs '{schemaVersion: 2, manifests: .}' "$work/tags" >"$layout/index.json"
find "$layout" -type d -exec chmod 0755 {} + -o -exec chmod 0644 {} +
