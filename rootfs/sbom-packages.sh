# Entries of a list of contents (SPDX 2.3 JSON), for sbom.sh and release-client.sh. To be sourced inside the build root, after
# arch.sh, with `out`, the folder of the compiled programs, and `here`, the folder of this file.
rows() { sed 's/#.*//; /^[[:space:]]*$/d' "$1"; }

# The Debian packages of the static libraries in a program: -l names and archives outside the checkout, in its link command.
static_packages() {  # PROGRAMS
  local name item
  {
    for name in "$@"; do
      [ ! -e "$out/build.ninja" ] || ninja -C "$out" -t commands "$name" 2>/dev/null | tail -n 1 | tr ' ' '\n' |
        grep -E "^(-l.+|$sysroot/usr/.+\.a)\$" || true
    done
    printf '%s\n' -lc -lm -lstdc++ -lgcc -lgcc_eh   # the compiler's own additions
  } | sort -u | while read -r item; do
    case $item in -l*) item=$(clang++-19 "${compiler[@]}" -print-file-name="lib${item#-l}.a") ;; esac
    item=$(readlink -f "$item") || continue
    package_of "$item"
  done | sort -u
}

licence() { local found; found=$(rows "$here/packages/licences.list" | awk -v p="$1" '$1 == p { $1 = ""; sub(/^ +/, ""); print }'); echo "${found:-NOASSERTION}"; }

entry() {  # NAME VERSION LICENCE SOURCE PURL [ID]
  jq -cn --arg n "$1" --arg v "$2" --arg l "$3" --arg s "$4" --arg p "$5" --arg id "${6:-$1}" '{
    SPDXID: ("SPDXRef-Package-" + ($id | gsub("[^A-Za-z0-9.-]"; "-"))), name: $n, versionInfo: $v,
    downloadLocation: "NOASSERTION", filesAnalyzed: false, licenseConcluded: "NOASSERTION",
    licenseDeclared: $l, copyrightText: "NOASSERTION"}
    + (if $s != "" then {sourceInfo: $s} else {} end)
    + (if $p != "" then {externalRefs: [{referenceCategory: "PACKAGE-MANAGER", referenceType: "purl", referenceLocator: $p}]} else {} end)'
}

debian_entry() {  # PACKAGE HOW-IT-IS-THERE
  local v sp sv
  IFS='|' read -r v sp sv < <(package_facts "$1")
  entry "$1" "$v" "$(licence "$1")" "$2; Debian source package $sp $sv" "pkg:deb/debian/$1@$v"
}

# The source packages that are compiled into packages: the Go modules of containerd, runc and etcd are Debian packages, which
# these name with their versions (Debian Policy 7.8).
built_using() {  # PACKAGES: lines of "SOURCE VERSION"
  local name
  for name in "$@"; do package_sources "$name"; done |
    tr ',' '\n' | sed -n 's/^ *\([^ ]*\) (= \([^ )]*\)).*/\1 \2/p' | sort -u
}
source_entries() {  # PACKAGES
  local name version
  built_using "$@" | while read -r name version; do
    entry "$name" "$version" NOASSERTION "source that is compiled into programs of Debian in this image" \
      "pkg:deb/debian/$name@$version?arch=source" "source-$name-$version"
  done
}
