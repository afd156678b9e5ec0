# Checks the includes between rooms:  awk -f arrows.awk ROOMS FILE...
# ROOMS has a line for each room: FOLDER TARGET LINKS TEST-LINKS, the lists separated by commas ("-": none).
# An include of a room that the including one does not link, directly or through another, is an error.
# *-test.cc and test-*.h may also include what the room's tests link.
FNR == NR {
  room[$1] = $2
  links[$2] = $3
  test_links[$2] = $4
  next
}
FNR == 1 {
  folder = FILENAME
  sub(/\/[^\/]*$/, "", folder)
  name = substr(FILENAME, length(folder) + 2)
  from = room[folder]
  delete seen
  reach(from)
  if (name ~ /-test\.cc$/ || name ~ /^test-/) reach_all(test_links[from])
}
/^#include "/ {
  path = $2
  gsub(/"/, "", path)
  to = path
  sub(/\/[^\/]*$/, "", to)
  to = to == "rpc" ? "rpc" : room[to]
  if (to != "" && !(to in seen)) {
    printf "%s:%d: %s includes \"%s\", but does not link %s\n", FILENAME, FNR, from, path, to >"/dev/stderr"
    wrong = 1
  }
}
END { exit wrong }

function reach(target) {
  if (target in seen) return
  seen[target] = 1
  reach_all(links[target])
}
function reach_all(list,   parts, n, i) {
  n = split(list, parts, ",")
  for (i = 1; i <= n; ++i) if (parts[i] != "-") reach(parts[i])
}
