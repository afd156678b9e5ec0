#!/bin/bash
# The list of an image's contents, SPDX 2.3 JSON:  sbom.sh TREE OUT KERNEL_DEB ROOTFS STAMP RESULT FIRMWARE
# Packages are our programs, the Debian packages of the static libraries in them (from the build's own link
# commands), those of the container runtime and its libraries, the sources that are compiled into these (Go modules), the
# kernel, those of FIRMWARE (lines of "PACKAGE FILE") and the public CAs; files are all regular files of the tree. Does nothing
# when STAMP says that nothing has changed. The time is SOURCE_DATE_EPOCH.
set -euo pipefail
export LC_ALL=C
tree=$1 out=$2 deb=$3 here=$4 stamp=$5 result=$6 firmware=$7
. "$here/arch.sh"
. "$here/sbom-packages.sh"

sums=$(cd "$tree" && find . -type f -printf '%P\n' | sort | while read -r f; do sha256sum "$f"; done)
key=$(cat "$0" "$here/sbom-packages.sh" "$here/arch.sh" "$here"/packages/*.list "$out/programs.list" "$here/os-release" <(echo "$sums" "$SOURCE_DATE_EPOCH") | sha256sum | cut -d' ' -f1)
[ "$(cat "$stamp" 2>/dev/null || true)" != "$key" ] || [ ! -e "$result" ] || exit 0

packages=$(static_packages $(rows "$out/programs.list" | cut -d' ' -f1))

# The packages that the shared files of the tree are from, and the programs that use them.
shipped() {
  {
    runtime_rows "$here/packages/runtime.list" | cut -d' ' -f1
    image_libraries "$tree" | while read -r path; do package_of "$(readlink -f "$sysroot${path#"$tree"}")"; done
  } | sort -u
}

version=$(. "$here/os-release"; echo "$VERSION_ID")
{
  rows "$out/programs.list" | while read -r name paths; do entry "$name" "$version" NOASSERTION "this project; installed as $paths" ""; done
  for p in $packages; do debian_entry "$p" "linked statically"; done
  foreign=$(shipped)
  for p in $foreign; do debian_entry "$p" "shipped as it is"; done
  source_entries $foreign
  IFS='|' read -r v sp sv < <(dpkg-query -W -f '${Version}|${source:Package}|${source:Version}\n' ca-certificates)
  entry ca-certificates "$v" "$(licence ca-certificates)" "/etc/ssl/certs/ca-certificates.crt; Debian source package $sp $sv" "pkg:deb/debian/ca-certificates@$v"
  for p in "${loader_packages[@]}"; do debian_entry "$p" "boot loader in /usr/install"; done
  while read -r p file; do
    v=$(dpkg-deb -f "$file" Version) sp=$(dpkg-deb -f "$file" Source)
    entry "$p" "$v" "$(licence "$p")" "in /usr/lib/firmware as it is; Debian source package ${sp:-$p}" "pkg:deb/debian/$p@$v"
  done <"$firmware"
  kp=$(dpkg-deb -f "$deb" Package) kv=$(dpkg-deb -f "$deb" Version)
  entry "$kp" "$kv" "$(licence linux-image)" "kernel and modules; Debian source package $(dpkg-deb -f "$deb" Source)" "pkg:deb/debian/$kp@$kv"
} >"$result.packages"
(cd "$tree" && find . -type f -printf '%P\n' | sort | while read -r f; do
  sha1=$(sha1sum <"$f" | cut -d' ' -f1)   # by itself: a failure within other words is not noticed
  sha256=$(sha256sum <"$f" | cut -d' ' -f1)
  printf '%s %s %s\n' "$sha1" "$sha256" "$f"
done) | jq -cR 'split(" ") | {SPDXID: ("SPDXRef-File-" + (.[2] | gsub("[^A-Za-z0-9.-]"; "-"))), fileName: ("./" + (.[2:] | join(" "))),
  checksums: [{algorithm: "SHA1", checksumValue: .[0]}, {algorithm: "SHA256", checksumValue: .[1]}],
  licenseConcluded: "NOASSERTION", copyrightText: "NOASSERTION"}' >"$result.files"

jq -n --arg key "$key" --arg version "$version" --arg time "$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)" \
  --slurpfile packages "$result.packages" --slurpfile files "$result.files" '{
  spdxVersion: "SPDX-2.3", dataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT", name: ("talos-image-" + $version),
  documentNamespace: ("urn:sha256:" + $key), creationInfo: {created: $time, creators: ["Tool: rootfs/sbom.sh"]},
  packages: $packages, files: $files,
  relationships: [$packages[] | {spdxElementId: "SPDXRef-DOCUMENT", relationshipType: "DESCRIBES", relatedSpdxElement: .SPDXID}]}' >"$result.new"
rm "$result.packages" "$result.files"
mv "$result.new" "$result"
echo "$key" >"$stamp"
