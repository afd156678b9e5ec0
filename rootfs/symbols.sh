#!/bin/bash
# Writes the names of the functions of a node's programs:  symbols.sh OUT FOLDER   (inside the build root; `make
# symbols` calls it). FOLDER/<build id>.symbols.gz is what `talosctl crashes NAME --symbols FOLDER` reads
# (common/crash/symbol-table.h). Those of earlier builds stay there: a report may be older than the build.
set -euo pipefail
export LC_ALL=C
out=$1 folder=$2
mkdir -p "$folder"
while read -r name _; do
  [ -n "$name" ] || continue
  id=$(llvm-readelf-19 --notes "$out/$name" | sed -n 's/.*Build ID: \([0-9a-f]*\).*/\1/p')
  [ -n "$id" ] || { printf 'symbols: %s has no build id\n' "$out/$name" >&2; exit 1; }
  file=$folder/$id.symbols.gz
  if [ ! -e "$file" ]; then
    # Each address once, with the first of its names; only code. Where it ends, there is no name.
    {
      printf 'talos-symbols 1 %s\n' "$id"
      llvm-nm-19 --numeric-sort --demangle --defined-only "$out/$name" |
        awk '$2 ~ /^[tTwWi]$/ && $1 != last { last = address = $1; sub(/^0+/, "", address); sub(/^[^ ]+ . /, ""); print (address == "" ? "0" : address) " " $0 }'
    } | gzip -9n >"$file.unfinished"
    mv "$file.unfinished" "$file"
  fi
  printf 'symbols: %s of %s: %s bytes\n' "$file" "$name" "$(stat -c %s "$file")"
done <"$out/programs.list"
