#!/bin/bash
# Writes the order of functions in the file of all programs, that of their first use:
#   rootfs/node/first-use.sh build/out/node LOG >rootfs/node/first-use.symbols
# LOG is QEMU's log of the code that it translated while an emulated node with this file booted, answered
# calls and took configs. By the machine's QMP socket (NAME.qmp in the cluster's state folder), of a
# cluster that `talosctl cluster create --provisioner qemu --accelerator tcg` has made:
#   {"execute":"qmp_capabilities"}
#   {"execute":"human-monitor-command","arguments":{"command-line":"logfile LOG"}}
#   {"execute":"human-monitor-command","arguments":{"command-line":"log in_asm"}}
#   {"execute":"system_reset"}
# A block of code counts if its bytes are the file's: the kernel and other programs use the same addresses.
set -euo pipefail
export LC_ALL=C
binary=$1 log=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

read -r address offset size < <(readelf -SW "$binary" | sed 's/\[ */[/' | awk '$2 == ".text" { print $4, $5, $6 }')
od -An -v -tx1 -j $((16#$offset)) -N $((16#$size)) "$binary" | tr -d ' \n' >"$work/text"
nm -n --defined-only "$binary" | awk '$2 ~ /[tTwWiV]/' >"$work/names"

awk -v text_file="$work/text" -v names="$work/names" -v first="$((16#$address))" -v size="$((16#$size))" '
  function number(hex,   i, n) { n = 0; for (i = 1; i <= length(hex); ++i) n = n * 16 + index(digits, substr(hex, i, 1)) - 1; return n }
  function function_at(at,   low, high, middle) {   # the last name at or before the address
    low = 1; high = count
    while (low < high) { middle = int((low + high + 1) / 2); if (start[middle] <= at) low = middle; else high = middle - 1 }
    return low
  }
  function take(   found) {
    if (!begin) return
    found = function_at(begin)
    if (start[found] <= begin && !(found in printed)) { printed[found] = 1; print name[found] }
    begin = 0
  }
  BEGIN {
    digits = "0123456789abcdef"
    getline text <text_file
    while ((getline line <names) > 0) {
      split(line, field, " ")
      at = number(field[1])
      if (at >= first && at < first + size) { start[++count] = at; name[count] = substr(line, 20) }
    }
  }
  /^IN:/ { take(); inside = 1; next }
  !/^0x/ { take(); inside = 0; next }
  inside {
    at = number(substr($1, 3, length($1) - 3))
    bytes = substr($0, length($1) + 3, 23)
    gsub(/ /, "", bytes)
    if (at < first || at >= first + size || substr(text, 2 * (at - first) + 1, length(bytes)) != bytes) { inside = begin = 0; next }
    if (!begin) begin = at
  }
  END { take() }' "$log"
