# Names of files, tests and targets of make that comments and documents mention:
#   awk -f names.awk KIND=exception names.list KIND=path PATHS KIND=test TESTS KIND=program PROGRAMS KIND=target TARGETS
#     KIND=text FILE...
# A name is wrong when no tracked file, no test or no target has it. Prints file:line of each wrong name and each
# exception that no text needs, and exits with 1 if there are any. Only comments of source files are read, and all
# of a page.
#   - file: `a/b.cc` is the end of a path; a page's link starts at the page's folder
#   - folder: a name that starts with a folder of the top level
#   - test: `Suite.Test` in the whole, or its beginning before "*" or "…"; `Suite…` in a page
#   - program of a test: `x-test` is x-test.cc, the test of the room x, or a target with this name
#   - target: each word after `make` in backquotes, and in an example of a page
# A number of a section of a plan or a design is wrong, too: no page numbers its sections.
BEGIN {
  suffixes = "\\.(cc|h|sh|awk|inc|capnp|list|cmake|proto|md)$"
  placeholder = "(^|[/-])(X|Xd|SUBJECT|ROOM|NAME|a-b-c)([-./]|$)"
}
KIND == "exception" {
  if ($0 !~ /^#/ && $0 != "") {
    at = index($0, "\t")
    if (at == 0) report("an exception needs a tab and a reason")
    exception[substr($0, 1, at - 1)] = FILENAME ":" FNR
  }
  next
}
KIND == "path" {
  n = split($0, parts, "/")
  if (n > 1) top[parts[1]] = 1
  tail = ""
  for (i = n; i >= 1; --i) {
    tail = parts[i] (tail == "" ? "" : "/" tail)
    file[tail] = 1
  }
  whole[$0] = 1
  folder = $0
  while (sub(/\/[^\/]*$/, "", folder)) whole[folder] = 1
  if (sub(/-test\.cc$/, "-test", parts[n])) program[parts[n]] = 1
  next
}
KIND == "test" {
  test[$0] = 1
  for (i = 1; i <= length($0); ++i) test_begins[substr($0, 1, i)] = 1
  next
}
KIND == "program" { program[$0] = 1; next }
KIND == "target" { target[$1] = 1; next }
FNR == 1 {
  page = FILENAME ~ /\.md$|^tests\/client\/.*\.txt$/
  mark = FILENAME ~ /\.(cc|h|inc|proto)$/ ? "//" : "#"
  home = FILENAME
  if (!sub(/[^\/]*$/, "", home)) home = ""
}
{
  text = page ? $0 : comment($0)
  if (text == "") next
  if (text ~ /[a-z]\.[a-z]|-test|\//) files(text)
  if (text ~ /[A-Za-z0-9]\.[A-Z]/) tests(text)
  if (page && index(text, "…`")) beginnings(text)
  if (index(text, "make ")) targets(text)
  if (text ~ /(design|plan)(\.md)? §[0-9]/) report("no page has the numbered section \"§\": say what the section says")
}
END {
  for (name in exception) {
    if (name in used) continue
    printf "%s: exception for \"%s\", which no text mentions\n", exception[name], name
    wrong = 1
  }
  exit wrong
}

# The comment of a line, without its mark. A mark within a string begins none.
function comment(line,   at, before, quotes, rest) {
  rest = line
  before = ""
  while ((at = index(rest, mark)) > 0) {
    before = before substr(rest, 1, at - 1)
    rest = substr(rest, at + length(mark))
    quotes = before
    gsub(/\\./, "", quotes)
    quotes = gsub(/"/, "", quotes)
    if (quotes % 2 == 0 && before ~ /(^|[ \t;{}])$/) return rest
    before = before mark
  }
  return ""
}

function files(text,   token, before, after, rest) {
  rest = text
  before = ""
  while (match(rest, /[A-Za-z0-9_.\/+-]+/)) {
    token = substr(rest, RSTART, RLENGTH)
    before = substr(before substr(rest, 1, RSTART - 1), RSTART > 3 ? RSTART - 3 : 1)
    rest = substr(rest, RSTART + RLENGTH)
    after = substr(rest, 1, 3)
    sub(/[.\/-]+$/, "", token) && after = after == "" || after ~ /^[^*…{$<]/ ? " " : after
    if (before ~ /\]\($/ && after ~ /^:/) continue   # the address of a server
    if (before !~ /([*{}<$@:~]|…)$/ && after !~ /^[*{$<]/ && after != "…") file_name(token, before ~ /\]\($/)
    before = token
  }
}
function file_name(token, linked,   name, first) {
  if (token ~ /^[\/.+-]/ && !(linked && token ~ /^\.\.?\//)) return
  if (token ~ placeholder) return
  if (token !~ /\// && token ~ /^[a-z][a-z0-9-]*-test$/) {
    if (!(token in program)) complain("test program", token)
    return
  }
  if (linked) {
    name = home token
    while (sub(/[^\/]+\/\.\.\//, "", name)) {}
    if (!(name in whole)) complain("file", token)
    return
  }
  first = token
  sub(/\/.*/, "", first)
  if (token ~ suffixes && token !~ /^[A-Z][a-z]+\.list$/) {
    if (!(token in file)) complain("file", token)
  } else if (first != token && first in top) {
    if (!(token in whole)) complain("folder", token)
  }
}

function tests(text,   token, before, after) {
  while (match(text, /[A-Za-z0-9_.\/-]+/)) {
    token = substr(text, RSTART, RLENGTH)
    before = substr(text, RSTART > 3 ? RSTART - 3 : 1, RSTART > 3 ? 3 : RSTART - 1)
    after = substr(text, RSTART + RLENGTH, 3)
    text = substr(text, RSTART + RLENGTH)
    sub(/\.$/, "", token)
    if (token !~ /^[A-Z][A-Za-z0-9]*\.[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*$/ || before ~ /[<:]$/ || after ~ /^[(:]/) continue
    if (after ~ /^\*/ || after == "…" ? !(token in test_begins) : !(token in test)) complain("test", token)
  }
}
function beginnings(text,   token) {
  while (match(text, /`[A-Z][A-Za-z0-9]*…`/)) {
    token = substr(text, RSTART + 1, RLENGTH - 2)
    text = substr(text, RSTART + RLENGTH)
    sub("…", "", token)
    if (!(token in test_begins)) complain("test", token)
  }
}

function targets(text,   command, n, words, i) {
  if (page && text ~ /^    +([A-Z_]+=[^ ]* )*make /) {
    command = text
    sub(/^ +([A-Z_]+=[^ ]* )*make /, "", command)
    target_names(command)
    return
  }
  while (match(text, /`([A-Z_]+=[^ `]* )*make [^`]*`/)) {
    command = substr(text, RSTART + 1, RLENGTH - 2)
    text = substr(text, RSTART + RLENGTH)
    sub(/^([A-Z_]+=[^ ]* )*make /, "", command)
    target_names(command)
  }
}
function target_names(command,   n, words, i) {
  sub(/  .*/, "", command)
  n = split(command, words, " ")
  for (i = 1; i <= n; ++i) {
    if (words[i] ~ /["']/) return   # a value with blanks
    if (words[i] ~ /^[a-z][a-z0-9-]*$/ && !(words[i] in target)) complain("target of make", words[i])
  }
}

# An exception is a whole name, or the folder of another project with a slash at its end.
function complain(what, name,   head) {
  head = name
  do {
    if (head in exception) {
      used[head] = 1
      return
    }
    sub(/\/$/, "", head)
  } while (sub(/[^\/]*$/, "", head) && head != "")
  report("no " what " has the name \"" name "\"")
}
function report(finding) {
  printf "%s:%d: %s\n", FILENAME, FNR, finding
  wrong = 1
}
