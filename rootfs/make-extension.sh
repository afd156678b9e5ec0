#!/bin/bash
# Makes the image of a system extension of this folder:  make-extension.sh NAME OUT.tar   (inside the build root; `make extension`)
# extensions/NAME has
#   manifest.yaml     with @version@ in place of its version: that of the first package
#   packages          names of Debian's packages, a line each; fetched, once, into the cache
#   programs          SERVICE PATH…: what the root of the service's container has, from the packages or the build root, with
#                     the libraries that it needs; a path with / at its end is a folder
#   containers/*.yaml the services
# OUT is an OCI archive of one layer. The same packages give the same bytes.
set -euo pipefail
umask 022
export LC_ALL=C
name=$1 out=$2
here=$(cd "$(dirname "$0")" && pwd)
source=$here/extensions/$name
cache=/cache/extensions
die() { printf 'extension: %s\n' "$*" >&2; exit 1; }
[ -d "$source" ] || die "there is no $name; there are $(ls "$here/extensions" | tr '\n' ' ')"
. "$here/arch.sh"
. "$here/pack.sh"
[ "$arch" = amd64 ] || die "extensions are made for amd64 only"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 0755 "$work"
mkdir -p "$cache" "$work/debs"
mapfile -t packages < <(rows "$source/packages")
package() { local found=("$cache/$1"_*.deb); [ -e "${found[0]}" ] && printf '%s\n' "${found[-1]}"; }
missing=()
for each in "${packages[@]}"; do package "$each" >/dev/null || missing+=("$each"); done
if [ "${#missing[@]}" -gt 0 ]; then
  printf 'extension: fetching %s\n' "${missing[*]}" >&2
  mkdir -p "$work/lists/partial" "$work/archives/partial"
  sed -n '/ trixie/p' /etc/apt/sources.list >"$work/sources"
  options=(-qq -o Dir::State::lists="$work/lists" -o Dir::Cache="$work" -o APT::Sandbox::User=root
    -o Dir::Etc::sourcelist="$work/sources" -o Dir::Etc::sourceparts=/dev/null)
  apt-get "${options[@]}" update >&2
  (cd "$cache" && apt-get "${options[@]}" download "${missing[@]}" >&2)
fi
for each in "${packages[@]}"; do dpkg-deb -x "$(package "$each")" "$work/debs"; done
# As on a system with merged folders.
for folder in bin sbin lib; do
  [ ! -d "$work/debs/$folder" ] || { mkdir -p "$work/debs/usr/$folder"; cp -a "$work/debs/$folder/." "$work/debs/usr/$folder/"; rm -r "$work/debs/$folder"; }
done
version=$(dpkg-deb -f "$(package "${packages[0]}")" Version)
SOURCE_DATE_EPOCH=$(dpkg-deb --fsys-tarfile "$(package "${packages[0]}")" | tar -tv --full-time --utc | awk '{ print $4 " " $5 }' | sort | tail -n 1 | xargs -I{} date -u -d {} +%s)
export SOURCE_DATE_EPOCH

find_file() {  # PATH: in the packages or in the build root
  for from in "$work/debs" ""; do
    if [ -e "$from$1" ]; then printf '%s\n' "$from$1"; return; fi
  done
  die "$1 is neither in the packages nor in the build root"
}
library() {  # NAME: the path of a library in a container
  for folder in "/usr/lib/$triplet" "/usr/lib/$triplet/systemd" /usr/lib64 /usr/lib; do
    for from in "$work/debs" ""; do
      if [ -e "$from$folder/$1" ]; then printf '%s %s\n' "$from$folder/$1" "$folder/$1"; return; fi
    done
  done
  die "there is no library $1 in the packages and the build root"
}
put_program() {  # ROOT PATH: with its libraries
  local root=$1 path=$2 from each
  [ ! -e "$root$path" ] || return 0
  from=$(find_file "$path")
  if [ -d "$from" ]; then
    mkdir -p "$root$path"
    cp -a "$from/." "$root$path/"
    return
  fi
  install -D -m "$(stat -L -c %a "$from")" "$from" "$root$path"
  [ "$(head -c 4 "$from" | od -An -tx1 | tr -d ' ')" = 7f454c46 ] || return 0
  for each in $(needed_names "$from"); do
    [ "$each" != "$(basename "$loader")" ] || { put_program "$root" "$loader"; continue; }
    read -r from path < <(library "$each")
    put_program "$root" "$path"
  done
}

tree=$work/tree
mkdir -p "$tree/rootfs/usr/local/etc/containers" "$tree/rootfs/usr/local/lib/containers"
sed "s/@version@/$version/" "$source/manifest.yaml" >"$tree/manifest.yaml"
install -m 0644 "$source"/containers/*.yaml "$tree/rootfs/usr/local/etc/containers/"
while read -r service paths; do
  root=$tree/rootfs/usr/local/lib/containers/$service
  mkdir -p "$root"/{dev,etc,proc,sys,tmp,run,var/lib,usr/bin,usr/sbin,usr/lib,usr/lib64}
  for folder in bin sbin lib lib64; do [ -e "$root/$folder" ] || ln -s "usr/$folder" "$root/$folder"; done
  for path in $paths; do put_program "$root" "$path"; done
  # A program of busybox has its name.
  if [ -e "$root/usr/bin/busybox" ]; then
    for applet in sh cat grep ls mkdir modprobe mv printf sleep test; do [ -e "$root/usr/bin/$applet" ] || ln -s busybox "$root/usr/bin/$applet"; done
  fi
done < <(rows "$source/programs")

# --- the image: a layer, its config, its manifest ------------------------------------------------------------------
layout=$work/layout
mkdir -p "$layout/blobs/sha256"
blob() { local sum; sum=$(sha256sum <"$1" | cut -d' ' -f1); mv "$1" "$layout/blobs/sha256/$sum"; printf 'sha256:%s' "$sum"; }
archive() { tar --create --file="$2" --directory="$1" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu .; }
archive "$tree" "$work/layer"
media=application/vnd.oci.image
layers=$(stat -c %s "$work/layer")
layer=$(blob "$work/layer")
jq -nc --arg layer "$layer" --arg arch "$arch" '{architecture: $arch, os: "linux", rootfs: {type: "layers", diff_ids: [$layer]}}' >"$work/config"
configs=$(stat -c %s "$work/config")
config=$(blob "$work/config")
jq -nc --arg m $media --arg layer "$layer" --arg config "$config" --argjson layers "$layers" --argjson configs "$configs" '{schemaVersion: 2,
  mediaType: ($m + ".manifest.v1+json"), config: {mediaType: ($m + ".config.v1+json"), digest: $config, size: $configs},
  layers: [{mediaType: ($m + ".layer.v1.tar"), digest: $layer, size: $layers}]}' >"$work/manifest"
manifests=$(stat -c %s "$work/manifest")
manifest=$(blob "$work/manifest")
jq -nc --arg m $media --arg manifest "$manifest" --argjson size "$manifests" --arg ref "$name:$version" '{schemaVersion: 2,
  manifests: [{mediaType: ($m + ".manifest.v1+json"), digest: $manifest, size: $size, annotations: {"org.opencontainers.image.ref.name": $ref}}]}' >"$layout/index.json"
printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
archive "$layout" "$out.new"
mv "$out.new" "$out"
printf 'extension: %s %s, %s bytes, %s\n' "$name" "$version" "$(stat -c %s "$out")" "$manifest"
