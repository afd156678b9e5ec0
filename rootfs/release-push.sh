#!/bin/bash
# Pushes the installer images of a release and their signatures:  release-push.sh RELEASE REGISTRY   (inside the build root;
# `make release-push` calls it). Nothing else of the release goes to a registry, and nothing that is not of this project.
#   INSECURE=1    without TLS, or without verifying it: for a registry of a test
#   AUTHFILE=     credentials, as docker login and skopeo login write them
#   CA=           the CA of the registry, if it is not a public one
# REGISTRY is registry.example.com or registry.example.com/site; the images get the name installer below it. A push that is cut
# off is repeated by another call. What the registry holds is compared with the release at the end.
set -euo pipefail
export LC_ALL=C
release=$1 registry=$2
die() { printf 'release-push: %s\n' "$*" >&2; exit 1; }
[ -e "$release/index.json" ] || die "there is no release; run make release REGISTRY=$registry"
[ -n "$registry" ] || die "use REGISTRY=registry.example.com/site"
[[ $registry =~ ^[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9]+([._-][a-z0-9]+)*)*$ ]] || die "REGISTRY is \"$registry\", which is not a name in a registry"
# Files of the release that were changed since it was made must not reach a registry.
(cd "$release" && grep ' installer/' SHA256SUMS | sha256sum --quiet -c) || die "the installer images are not those of SHA256SUMS; run make release again"
repository=$(jq -r '.installer.repository // ""' "$release/index.json")
[ "$repository" = "$registry/installer" ] || printf 'release-push: warning: this release was made for %s; its nodes find %s only by a mirror\n' \
  "${repository:-no registry (REGISTRY= of make release)}" "$registry/installer" >&2

verify=true
[ "${INSECURE:-}" != 1 ] || verify=false
access=(${AUTHFILE:+--authfile "$AUTHFILE"}) trust=
if [ -n "${CA:-}" ]; then
  trust=$(mktemp -d)
  trap 'rm -rf "$trust"' EXIT
  cat "$CA" >"$trust/ca.crt"
fi
while read -r digest tag; do
  from=$SECONDS
  skopeo copy --quiet --all --preserve-digests --retry-times 3 --dest-tls-verify="$verify" "${access[@]}" \
    ${trust:+--dest-cert-dir "$trust"} "oci:$release/installer:$tag" "docker://$registry/installer:$tag" ||
    die "cannot push $registry/installer:$tag"
  found=$(skopeo inspect --raw --tls-verify="$verify" "${access[@]}" ${trust:+--cert-dir "$trust"} \
    "docker://$registry/installer:$tag" | sha256sum | cut -d' ' -f1)
  [ "sha256:$found" = "$digest" ] || die "$registry/installer:$tag is sha256:$found after the push, and not $digest"
  printf 'release-push: %s/installer:%s@%s, %s s\n' "$registry" "$tag" "$digest" $((SECONDS - from))
done < <(jq -r '.manifests[] | "\(.digest) \(.annotations["org.opencontainers.image.ref.name"])"' "$release/installer/index.json")
