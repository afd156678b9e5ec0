#!/bin/bash
# Catches: an installer image under another name or digest in the registry than index.json says; a file that is given away and
# not listed, or changed afterwards and pushed; a signature that is not one, or is missing where nodes look for it; a release
# that differs when it is made again; a push that does not verify TLS; a name in programs that Docker Hub would be asked for. The images are small
# ones; Debian's docker-registry listens in a network of this test alone.
set -euo pipefail
if [ "${1:-}" != inside ]; then exec unshare --net "$0" inside; fi
ip link set lo up
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
registry_pid=
trap '[ -z "$registry_pid" ] || kill "$registry_pid"; rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; exit 1; }
export KEY=$work/key
(umask 077; openssl genpkey -algorithm ed25519 -out "$KEY")
readonly name=registry.example.com/site/installer version=v9.9.9

installer() {  # FLAVOUR CONTENT
  local image=$work/image
  rm -rf "$image"
  mkdir -p "$image/parts/tree/usr/install" "$release/$1"
  for file in parts/tree/usr/install/vmlinuz parts/tree/usr/install/initramfs rootfs.sqsh; do echo "$2" >"$image/$file"; done
  touch -d @1700000000 "$image/parts/tree/usr/install/vmlinuz"
  VERSION=$version "$here/installer.sh" "$image" "$release/$1/installer-amd64.tar" >/dev/null
}
make_release() {  # FOLDER
  release=$1
  mkdir -p "$release/cloud/pxe-amd64.pxe"
  installer cloud cloud
  installer metal metal
  mv "$release/metal/installer-amd64.tar" "$release/metal/of-metal"
  # Two architectures of one flavour: an index of both.
  installer metal other
  mv "$release/metal/installer-amd64.tar" "$release/metal/installer-arm64.tar"
  mv "$release/metal/of-metal" "$release/metal/installer-amd64.tar"
  cp "$release/cloud/installer-amd64.tar" "$release/cloud/installer-arm64.tar"
  echo client >"$release/talosctl-linux-amd64"
  echo contents >"$release/talosctl-linux-amd64.spdx.json"
  echo disk >"$release/cloud/digital-ocean-amd64.raw.gz"
  echo script >"$release/cloud/pxe-amd64.pxe/boot.ipxe"
  "$here/release-installer.sh" "$release" "$name" "$version" "cloud metal" "amd64 arm64"
  "$here/release-index.sh" "$release" "$version" 01234567 "$name"
}
make_release "$work/one"
make_release "$work/two"
diff -r "$work/one" "$work/two" >&2 || fail "made again, it differs"
cd "$work/one"

# --- what is listed
sha256sum --quiet -c SHA256SUMS || fail "SHA256SUMS does not fit"
diff <(find . -type f ! -name 'SHA256SUMS*' -printf '%P\n' | sort) <(cut -c67- SHA256SUMS | sort) >&2 || fail "SHA256SUMS does not list every file"
diff <(find . -type f ! -name 'SHA256SUMS*' ! -path ./index.json -printf '%P %s\n' | sort) \
  <(jq -r '.files[] | "\(.file) \(.size)"' index.json | sort) >&2 || fail "index.json does not list every file"
row() { jq -c --arg file "$1" '.files[] | select(.file == $file) | [.kind, .platform, .flavour, .architecture]' index.json; }
[ "$(row cloud/digital-ocean-amd64.raw.gz)" = '["disk","digital-ocean","cloud","amd64"]' ] || fail "a disk is $(row cloud/digital-ocean-amd64.raw.gz)"
[ "$(row cloud/pxe-amd64.pxe/boot.ipxe)" = '["network-boot","pxe","cloud","amd64"]' ] || fail "the network boot is $(row cloud/pxe-amd64.pxe/boot.ipxe)"
[ "$(row talosctl-linux-amd64)" = '["client",null,null,"amd64"]' ] || fail "talosctl is $(row talosctl-linux-amd64)"
[ "$(row talosctl-linux-amd64.spdx.json)" = '["contents",null,null,"amd64"]' ] || fail "a list of contents is $(row talosctl-linux-amd64.spdx.json)"
echo secret >"$work/two/notes-to-self"
! "$here/release-index.sh" "$work/two" "$version" 01234567 "$name" 2>/dev/null || fail "a file of no known kind is given away"

# --- signatures
verify() { openssl pkeyutl -verify -pubin -inkey release.pub -rawin -in "$1" -sigfile <(base64 -d <<<"$2") >/dev/null; }   # FILE BASE64
verify SHA256SUMS "$(cat SHA256SUMS.sig)" || fail "the signature of SHA256SUMS does not fit"
verify metal/installer-arm64.tar "$(cat metal/installer-arm64.tar.sig)" || fail "the signature of an archive does not fit"
! verify index.json "$(cat SHA256SUMS.sig)" 2>/dev/null || fail "the signature of SHA256SUMS fits everything"

# --- a registry
cat >"$work/registry.yml" <<END
version: 0.1
storage: {filesystem: {rootdirectory: $work/registry}}
http: {addr: '127.0.0.1:5000'}
END
mkfifo "$work/log"
docker-registry serve "$work/registry.yml" >"$work/log" 2>&1 &
registry_pid=$!
exec 3<"$work/log"
while read -r line <&3; do case $line in *"listening on"*) break ;; esac; done
[[ ${line:-} == *"listening on"* ]] || fail "docker-registry does not listen"
cat <&3 >/dev/null &
push() { env "$@" "$here/release-push.sh" "$work/one" 127.0.0.1:5000/site; }
! push INSECURE= >/dev/null 2>&1 || fail "a registry without TLS was pushed to"
push INSECURE=1 >"$work/said" 2>"$work/warned" || fail "the push: $(cat "$work/warned")"
grep -q "made for $name" "$work/warned" || fail "no warning that the release names another registry"
in_registry() { skopeo inspect --raw --tls-verify=false "docker://127.0.0.1:5000/site/installer:$1"; }
for tag in "$version" "$version-cloud" "$version-metal"; do
  digest=sha256:$(in_registry "$tag" | sha256sum | cut -d' ' -f1)
  [ "$digest" = "$(jq -r --arg tag "$tag" '.installer.tags[$tag]' index.json)" ] || fail "$tag is $digest in the registry, and another one in index.json"
  grep -qF "/installer:$tag@$digest" "$work/said" || fail "the push does not name $tag@$digest"
  in_registry "${digest/:/-}.sig" >"$work/signature" || fail "no signature of $tag in the registry"
  skopeo copy --quiet --src-tls-verify=false "docker://127.0.0.1:5000/site/installer:${digest/:/-}.sig" "dir:$work/signed"
  payload=$(jq -r '.layers[0].digest | sub("sha256:"; "")' "$work/signature")
  verify "$work/signed/$payload" "$(jq -r '.layers[0].annotations["dev.cosignproject.cosign/signature"]' "$work/signature")" ||
    fail "the signature of $tag does not fit"
  [ "$(jq -r '.critical.image["docker-manifest-digest"]' "$work/signed/$payload")" = "$digest" ] || fail "the signature of $tag is of another image"
  rm -r "$work/signed"
done
[ "$(in_registry "$version")" = "$(in_registry "$version-metal")" ] || fail "$version is not the image for all machines"
[ "$(in_registry "$version" | jq -r '[.manifests[].platform.architecture] | join(" ")')" = "amd64 arm64" ] || fail "the index has other architectures"
for arch in amd64 arm64; do
  skopeo copy --quiet --src-tls-verify=false --override-arch "$arch" "docker://127.0.0.1:5000/site/installer:$version" "dir:$work/pulled" || fail "the image of $arch cannot be pulled"
  rm -r "$work/pulled"
done
printf x >>"installer/blobs/sha256/$(ls installer/blobs/sha256 | head -n 1)"
! push INSECURE=1 >/dev/null 2>&1 || fail "an image that was changed since was pushed"

# --- a key that no node takes
openssl genpkey -algorithm RSA -out "$work/rsa" 2>/dev/null
! KEY=$work/rsa "$here/release-index.sh" "$work/two" "$version" 01234567 "$name" 2>"$work/said" || fail "an RSA key signs"
grep -q "neither Ed25519 nor ECDSA P-256" "$work/said" || fail "the refusal of an RSA key: $(cat "$work/said")"

# --- the name that programs are built with
built_with() {  # REGISTRY
  echo "$1" >"$work/given"
  cmake -DSOURCE="$here/.." -DOUT="$work/data.h" -DREGISTRY="$work/given" -P "$here/../cmake/version.cmake" >"$work/said" 2>&1 || return 1
  sed -n 's/^constexpr const char\* kVersionInstaller = "\(.*\)";$/\1/p' "$work/data.h"
}
for given in registry.example.com/site registry.example.com:5000/a/b_c localhost/site 127.0.0.1:5000 registry:5000; do
  [ "$(built_with "$given")" = "$given/installer" ] || fail "REGISTRY=$given gives $(built_with "$given"): $(cat "$work/said")"
done
[ "$(built_with "")" = "" ] || fail "without REGISTRY the name is $(built_with "")"
for given in site site/installer https://registry.example.com registry.example.com/ registry.example.com/Site 'a.b"; c'; do
  ! built_with "$given" >/dev/null || fail "REGISTRY=$given is taken"
  grep -q "REGISTRY is" "$work/said" || fail "the refusal of REGISTRY=$given: $(cat "$work/said")"
done
echo "1 passed, 0 failed"
