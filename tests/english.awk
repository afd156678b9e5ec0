# Idioms that a reader reads twice:  awk -f english.awk [-v show=ROOM] FILE...   (*.cc, *.h, *.capnp, *.md)
# docs/style.md has better words for each. Prints "ROOM COUNT" for each room that has any: a top-level folder, or a folder
# in it where the top-level folder has several (machined/config); docs for all documents. With `show`, file:line of each
# idiom of that room instead.
# What is looked at: comments of sources and schemas, and documents but for code and tables' separators.
BEGIN {
  # At the beginning of a sentence.
  start = "(One|Those|The one|The ones) (that|which|who)|Of |As |None[:.;,]|Nobody|Somebody|Whoever"
  n = split("nobody|somebody|whoever|anew|behind|goes on|go on|going on|went on|hears?|heard|who asks|asked for|asks for|" \
            "(is|are|was|were) asked|(is|are|has|have|was|were) none|of (its|their|his) own|(is|are|was|were) there|" \
            "(is|are|was|were) not there|as before it|so much as|for who ", words, "|")
  inside = ""
  for (i = 1; i <= n; ++i) inside = inside (i > 1 ? "|" : "") words[i]
  inside = "(^|[^A-Za-z])(" inside ")($|[^A-Za-z])"
}
FNR == 1 {
  code = 0
  room = FILENAME
  document = room ~ /\.md$/
  if (document) room = "docs"
  else if (room ~ /^(common|machined|apid|talosctl|tests|etcd-supervisor|networkd|kubed)\/[^\/]*\//) {
    split(room, parts, "/")
    room = parts[1] "/" parts[2]
  } else sub(/\/.*/, "", room)
}
document && /^```/ { code = !code; next }
{
  text = ""
  if (document) {
    if (!code && $0 !~ /^    /) text = $0
  } else if (FILENAME ~ /\.capnp$/) {
    if ((at = index($0, "#")) > 0) text = substr($0, at + 1)
  } else if ((at = match($0, /(^|[^:"])\/\/ /)) > 0) {
    text = substr($0, at + RLENGTH)
  }
  if (text == "") next
  gsub(/`[^`]*`/, "", text)
  found = 0
  rest = " " text
  while (match(rest, "(^ *|[.:;] +)(" start ")")) { ++found; rest = substr(rest, RSTART + RLENGTH) }
  rest = text
  while (match(rest, inside)) { ++found; rest = substr(rest, RSTART + RLENGTH - 1) }
  if (found == 0) next
  count[room] += found
  if (room == show) printf "%s:%d: %s\n", FILENAME, FNR, text
}
END {
  if (show == "") for (room in count) print room, count[room] | "sort"
}
