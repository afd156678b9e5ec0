# Shared by the scripts of this folder; sourced with $root, the build root, and $json set.

set -E
trap 'echo "${BASH_SOURCE[0]##*/}: line $LINENO failed: $BASH_COMMAND" >&2' ERR

# jq, like everything else, is the build root's.
jq() { "$root/lib64/ld-linux-x86-64.so.2" --library-path "$root/usr/lib/x86_64-linux-gnu" "$root/usr/bin/jq" "$@"; }

figure() {  # figure NAME UNIT OURS AIM [PEER-NAME PEERS]: one line of JSON; what is no number is null
  jq -cn --arg name "$1" --arg unit "$2" --arg ours "$3" --arg aim "$4" --arg peer "${5:-}" --arg theirs "${6:-}" \
    '{name:$name, unit:$unit, ours:($ours|tonumber? // null), aim:($aim|tonumber? // null),
      peer:(if $peer == "" then null else $peer end), theirs:($theirs|tonumber? // null)}
     | .met = (if .aim != null and .ours != null then .ours <= .aim else null end)
     | .ratio = (if .ours and .theirs and .ours > 0 then (.theirs/.ours*100|round/100) else null end)' >>"$json"
}

median() { sort -n | awk '{ all[NR] = $1 } END { if (NR == 0) exit 1; print all[int((NR + 1) / 2)] }'; }
