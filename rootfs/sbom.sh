#!/bin/bash
# The list of an image's contents, SPDX 2.3 JSON:  sbom.sh TREE OUT KERNEL_DEB ROOTFS STAMP RESULT FIRMWARE
# Packages are our programs, the Debian packages of the static libraries in them (from the build's own link
# commands), those of the container runtime and its libraries, the kernel, those of FIRMWARE (lines of "PACKAGE FILE") and the public CAs; files are all regular files of the tree. Does nothing when STAMP says
# that nothing has changed. The time is SOURCE_DATE_EPOCH.
set -euo pipefail
export LC_ALL=C
tree=$1 out=$2 deb=$3 here=$4 stamp=$5 result=$6 firmware=$7
. "$here/arch.sh"
rows() { sed 's/#.*//; /^[[:space:]]*$/d' "$1"; }

sums=$(cd "$tree" && find . -type f -printf '%P\n' | sort | while read -r f; do sha256sum "$f"; done)
key=$(cat "$0" "$here/arch.sh" "$here"/packages/*.list "$out/programs.list" "$here/os-release" <(echo "$sums" "$SOURCE_DATE_EPOCH") | sha256sum | cut -d' ' -f1)
[ "$(cat "$stamp" 2>/dev/null || true)" != "$key" ] || [ ! -e "$result" ] || exit 0

# The libraries in our programs: -l names and archives outside the checkout, in the link commands of our programs.
libraries() {
  local name
  [ -e "$out/build.ninja" ] || return 0
  while read -r name _; do
    ninja -C "$out" -t commands "$name" 2>/dev/null | tail -n 1 | tr ' ' '\n' | grep -E "^(-l.+|$sysroot/usr/.+\.a)\$" || true
  done < <(rows "$out/programs.list") | sort -u
  printf '%s\n' -lc -lm -lstdc++ -lgcc -lgcc_eh   # the compiler's own additions
}
packages=$(libraries | while read -r item; do
  case $item in -l*) item=$(clang++-19 "${compiler[@]}" -print-file-name="lib${item#-l}.a") ;; esac
  item=$(readlink -f "$item") || continue
  package_of "$item"
done | sort -u)

# The packages that the shared files of the tree are from, and the programs that use them.
shipped() {
  {
    runtime_rows "$here/packages/runtime.list" | cut -d' ' -f1
    image_libraries "$tree" | while read -r path; do package_of "$(readlink -f "$sysroot${path#"$tree"}")"; done
  } | sort -u
}

licence() { local found; found=$(rows "$here/packages/licences.list" | awk -v p="$1" '$1 == p { $1 = ""; sub(/^ +/, ""); print }'); echo "${found:-NOASSERTION}"; }
version=$(. "$here/os-release"; echo "$VERSION_ID")
entry() { # NAME VERSION LICENCE SOURCE PURL
  jq -cn --arg n "$1" --arg v "$2" --arg l "$3" --arg s "$4" --arg p "$5" '{
    SPDXID: ("SPDXRef-Package-" + ($n | gsub("[^A-Za-z0-9.-]"; "-"))), name: $n, versionInfo: $v,
    downloadLocation: "NOASSERTION", filesAnalyzed: false, licenseConcluded: "NOASSERTION",
    licenseDeclared: $l, copyrightText: "NOASSERTION"}
    + (if $s != "" then {sourceInfo: $s} else {} end)
    + (if $p != "" then {externalRefs: [{referenceCategory: "PACKAGE-MANAGER", referenceType: "purl", referenceLocator: $p}]} else {} end)'
}
{
  rows "$out/programs.list" | while read -r name paths; do entry "$name" "$version" NOASSERTION "this project; installed as $paths" ""; done
  for p in $packages; do
    IFS='|' read -r v sp sv < <(package_facts "$p")
    entry "$p" "$v" "$(licence "$p")" "linked statically; Debian source package $sp $sv" "pkg:deb/debian/$p@$v"
  done
  shipped | while read -r p; do
    IFS='|' read -r v sp sv < <(package_facts "$p")
    entry "$p" "$v" "$(licence "$p")" "shipped as it is; Debian source package $sp $sv" "pkg:deb/debian/$p@$v"
  done
  IFS='|' read -r v sp sv < <(dpkg-query -W -f '${Version}|${source:Package}|${source:Version}\n' ca-certificates)
  entry ca-certificates "$v" "$(licence ca-certificates)" "/etc/ssl/certs/ca-certificates.crt; Debian source package $sp $sv" "pkg:deb/debian/ca-certificates@$v"
  for p in "${loader_packages[@]}"; do
    IFS='|' read -r v sp sv < <(package_facts "$p")
    entry "$p" "$v" "$(licence "$p")" "boot loader in /usr/install; Debian source package $sp $sv" "pkg:deb/debian/$p@$v"
  done
  while read -r p file; do
    v=$(dpkg-deb -f "$file" Version) sp=$(dpkg-deb -f "$file" Source)
    entry "$p" "$v" "$(licence "$p")" "in /usr/lib/firmware as it is; Debian source package ${sp:-$p}" "pkg:deb/debian/$p@$v"
  done <"$firmware"
  kp=$(dpkg-deb -f "$deb" Package) kv=$(dpkg-deb -f "$deb" Version)
  entry "$kp" "$kv" "$(licence linux-image)" "kernel and modules; Debian source package $(dpkg-deb -f "$deb" Source)" "pkg:deb/debian/$kp@$kv"
} >"$result.packages"
(cd "$tree" && find . -type f -printf '%P\n' | sort | while read -r f; do
  printf '%s %s %s\n' "$(sha1sum <"$f" | cut -d' ' -f1)" "$(sha256sum <"$f" | cut -d' ' -f1)" "$f"
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
