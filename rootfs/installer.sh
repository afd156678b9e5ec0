#!/bin/bash
# Builds an installer image from an image:  installer.sh IMAGE TAR [NAME]   (inside the build root, after image.sh)
# TAR is at once an OCI layout and a docker archive of two layers. One has /usr/install: kernel, early initramfs, boot loader,
# the root image, the file version, and SHA256SUMS over all of them, which a node compares with what it writes. The other one
# is for those who build FROM it (onbuild.sh). They are not compressed: the root image is, and the rest is small. NAME is the
# reference in it (its tag: VERSION, if it has none), VERSION=text what the image says it is. The same image gives the same bytes.
set -euo pipefail
umask 022
export LC_ALL=C
image=$1 tar=$2
here=$(cd "$(dirname "$0")" && pwd)
. "$here/arch.sh"
version=${VERSION:-$(sed -n 's/^set(tag \(.*\))$/\1/p' "$here/../cmake/version.cmake")}
[[ $version =~ ^[A-Za-z0-9._+-]{1,64}$ ]] || { echo "installer: \"$version\" is not a valid version" >&2; exit 1; }
name=${3:-talos/installer}
case ${name##*/} in *:*) ;; *) name=$name:$version ;; esac
work=$(mktemp -d -p "$(dirname "$tar")")
trap 'rm -rf "$work"' EXIT
time="@$(stat -c %Y "$image/parts/tree/usr/install/vmlinuz")"
blobs=$work/layout/blobs/sha256
mkdir -p "$blobs" "$work/layer/usr/install"
archive() {  # FOLDER OUT: with nothing in it that differs from one build to the next
  tar --create --file="$2" --directory="$1" --sort=name --mtime="$time" --owner=0 --group=0 --numeric-owner --format=ustar .
}
blob() {  # FILE: moves it to its digest, which it prints
  local sum
  sum=$(sha256sum <"$1" | cut -d' ' -f1)
  mv "$1" "$blobs/$sum"
  echo "$sum"
}

install=$work/layer/usr/install
cp "$image"/parts/tree/usr/install/* "$install/"
ln "$image/rootfs.sqsh" "$install/rootfs.sqsh" 2>/dev/null || cp "$image/rootfs.sqsh" "$install/rootfs.sqsh"
echo "$version" >"$install/version"
(cd "$install" && sha256sum -- * >"$work/sums" && mv "$work/sums" SHA256SUMS)

# For builds FROM it (onbuild.sh), in a layer of its own: busybox, and Debian's programs with what they are linked to.
builder=$work/builder/installer
mkdir -p "$builder"/{bin,lib,programs}
cp "$sysroot/bin/busybox" "$builder/bin/"
for applet in awk cat cp echo env find grep gunzip install ls mkdir mv rm sed sh sha256sum sort stat touch unxz; do
  ln -s busybox "$builder/bin/$applet"
done
debian() {  # PROGRAM NAME: its loader is not where the kernel looks for it
  local library
  cp -L "$sysroot$1" "$builder/programs/$2"
  needed_libraries "$sysroot$1" >"$work/libraries"
  while read -r library; do cp -L "$sysroot$library" "$builder/lib/"; done <"$work/libraries"
  printf '#!/installer/bin/sh\nexec /installer/lib/%s --library-path /installer/lib --argv0 %s /installer/programs/%s "$@"\n' \
    "$(basename "$loader")" "$2" "$2" >"$builder/bin/$2"
  chmod 0755 "$builder/bin/$2"
}
# Loaded by name when a thread ends.
cp -L "$sysroot/usr/lib/$triplet/libgcc_s.so.1" "$builder/lib/"
debian /usr/bin/mksquashfs mksquashfs
debian /usr/bin/unsquashfs unsquashfs
debian /usr/bin/cpio cpio
debian /usr/bin/zstd unzstd
debian /usr/bin/kmod depmod
cp "$here/pack.sh" "$here/packages/modules.list" "$builder/"
install -m 0755 "$here/onbuild.sh" "$builder/onbuild"

layer() {  # FOLDER: its layer, as a line with digest and size
  local size digest
  archive "$1" "$work/layer.tar"
  size=$(stat -c %s "$work/layer.tar")
  digest=$(blob "$work/layer.tar")
  echo "$digest $size"
}
layer "$work/layer" >"$work/layers"
layer "$work/builder" >>"$work/layers"
layers=$(jq -Rcn '[inputs | split(" ")
  | {mediaType: "application/vnd.oci.image.layer.v1.tar", digest: "sha256:\(.[0])", size: (.[1] | tonumber)}]' <"$work/layers")
jq -cn --argjson layers "$layers" --arg version "$version" --arg arch "$arch" '{architecture: $arch, os: "linux",
  config: {
    Labels: {"org.opencontainers.image.version": $version},
    OnBuild: ["ARG RM", "ARG VERSION=\($version)-custom", "COPY --from=customization / /installer/tree/", "RUN [\"/installer/onbuild\"]"]
  }, rootfs: {type: "layers", diff_ids: [$layers[].digest]}}' >"$work/config"
config_size=$(stat -c %s "$work/config")
config=$(blob "$work/config")
jq -cn --argjson layers "$layers" --arg config "sha256:$config" --argjson configSize "$config_size" '{
  schemaVersion: 2, mediaType: "application/vnd.oci.image.manifest.v1+json",
  config: {mediaType: "application/vnd.oci.image.config.v1+json", digest: $config, size: $configSize},
  layers: $layers}' >"$work/manifest"
manifest_size=$(stat -c %s "$work/manifest")
manifest=$(blob "$work/manifest")
jq -cn --arg manifest "sha256:$manifest" --argjson size "$manifest_size" --arg tag "${name##*:}" --arg name "$name" '{schemaVersion: 2,
  manifests: [{mediaType: "application/vnd.oci.image.manifest.v1+json", digest: $manifest, size: $size,
    annotations: {"org.opencontainers.image.ref.name": $tag, "io.containerd.image.name": $name}}]}' >"$work/layout/index.json"
echo '{"imageLayoutVersion":"1.0.0"}' >"$work/layout/oci-layout"
# Read by docker load of releases before 25.
jq -cn --arg config "blobs/sha256/$config" --argjson layers "$layers" --arg name "$name" \
  '[{Config: $config, RepoTags: [$name], Layers: [$layers[].digest | sub(":"; "/") | "blobs/\(.)"]}]' >"$work/layout/manifest.json"
archive "$work/layout" "$tar.new"
mv "$tar.new" "$tar"
printf 'installer: %s, %s: %d bytes\ninstaller: digest sha256:%s\n' "$tar" "$name" "$(stat -c %s "$tar")" "$manifest"
