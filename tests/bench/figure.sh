# Shared by the scripts of this folder; sourced with $root, the build root, and $json set, and for what measures $section.

set -E
trap 'echo "${BASH_SOURCE[0]##*/}: line $LINENO failed: $BASH_COMMAND" >&2' ERR

# jq, like everything else, is the build root's.
jq() { "$root/lib64/ld-linux-x86-64.so.2" --library-path "$root/usr/lib/x86_64-linux-gnu" "$root/usr/bin/jq" "$@"; }

# figure NAME UNIT OURS AIM [PEER-NAME PEERS]: one line of JSON. Fails if a figure, or that of a named peer, is not a number.
figure() {
  jq -cn --arg section "${section:-}" --arg name "$1" --arg unit "$2" --arg ours "$3" --arg aim "$4" --arg peer "${5:-}" \
    --arg theirs "${6:-}" '
    def number($whose): . as $text | try tonumber catch error("\($name): \($whose) is \"\($text)\", which is not a number");
    {section: $section, name: $name, unit: $unit, ours: ($ours | number("ours")),
     aim: (if $aim == "" then null else $aim | number("the aim") end),
     peer: (if $peer == "" then null else $peer end),
     theirs: (if $peer == "" then null else $theirs | number("the peer") end)}
    | .met = (if .aim != null then .ours <= .aim else null end)
    | .ratio = (if .theirs and .ours > 0 then (.theirs / .ours * 100 | round / 100) else null end)' >>"$json"
}

# Fails without lines, and if one is not a number: sort takes null for 0.
median() { sort -n | awk '$1 + 0 != $1 { bad = 1 } { all[NR] = $1 } END { if (bad || NR == 0) exit 1; print all[int((NR + 1) / 2)] }'; }

# Aligns lines of cells with tabs between them.
columns() {
  awk -F'\t' '
    { for (i = 1; i <= NF; ++i) { cell[NR, i] = $i; if (length($i) > width[i]) width[i] = length($i) } count[NR] = NF }
    END {
      for (line = 1; line <= NR; ++line) {
        for (i = 1; i < count[line]; ++i) printf "%-" width[i] + 2 "s", cell[line, i]
        print cell[line, count[line]]
      }
    }'
}

# quietly COMMAND...: what it says is shown only if it fails. In a file of $scratch: a pipe would be held open by what the
# command leaves running.
quietly() {
  local status=0
  "$@" >"$scratch/said" 2>&1 || status=$?
  [ "$status" = 0 ] || { printf '%s said:\n' "$*" >&2; cat "$scratch/said" >&2; }
  return "$status"
}
