#!/bin/bash
# The list of contents of talosctl, SPDX 2.3 JSON, on stdout:  release-client.sh PROGRAM OUT VERSION   (release.sh calls it)
# PROGRAM is what is given to others, OUT the folder that it was compiled in. The time is SOURCE_DATE_EPOCH.
set -euo pipefail
export LC_ALL=C
program=$1 out=$2 version=$3
here=$(cd "$(dirname "$0")" && pwd)
. "$here/arch.sh"
. "$here/sbom-packages.sh"

packages=$(static_packages talosctl)
[ -n "$packages" ] || { echo "release: no package of talosctl's libraries was found" >&2; exit 1; }
sha1=$(sha1sum <"$program" | cut -d' ' -f1) sha256=$(sha256sum <"$program" | cut -d' ' -f1)
{
  entry talosctl "$version" NOASSERTION "this project" ""
  for name in $packages; do debian_entry "$name" "linked statically"; done
} | jq -s --arg version "$version" --arg arch "$arch" --arg file "$(basename "$program")" --arg sha1 "$sha1" --arg sha256 "$sha256" \
  --arg time "$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)" '{
  spdxVersion: "SPDX-2.3", dataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT", name: "talosctl-\($version)-\($arch)",
  documentNamespace: "urn:sha256:\($sha256)", creationInfo: {created: $time, creators: ["Tool: rootfs/release-client.sh"]},
  packages: ., files: [{SPDXID: "SPDXRef-File-talosctl", fileName: "./\($file)",
    checksums: [{algorithm: "SHA1", checksumValue: $sha1}, {algorithm: "SHA256", checksumValue: $sha256}],
    licenseConcluded: "NOASSERTION", copyrightText: "NOASSERTION"}],
  relationships: [.[] | {spdxElementId: "SPDXRef-DOCUMENT", relationshipType: "DESCRIBES", relatedSpdxElement: .SPDXID}]}'
