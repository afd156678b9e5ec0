# Sizes that a reader can hold:  awk -f sizes.awk tests/sizes.list FILE...   (*.h and *.cc)
# A file has at most 600 lines. A class has at most 30 methods, and their definitions are in one .cc file. sizes.list has
# today's exceptions, one a line as "WHAT NAME COUNT". It may only shrink: an exception that nothing needs, or whose
# count is too high, is an error, too. With `-v record=1` it prints the exceptions of these files instead.
# Read is what clang-format writes: a class begins and ends at the beginning of a line, its members are indented by
# two spaces, and a definition begins at the beginning of a line.
FILENAME ~ /sizes\.list$/ {
  if ($0 !~ /^#/ && NF == 3) allowed[$1 " " $2] = $3
  next
}
FNR == 1 {
  class = space = ""
  unit = FILENAME
  sub(/\.(h|cc)$/, "", unit)
}
{ lines[FILENAME] = FNR }
/^namespace [a-z0-9_:]+ \{/ { space = $2 }
/^(class|struct) [A-Za-z0-9_:]+[^;]*\{$/ || /^(class|struct) [A-Za-z0-9_]+( final)? *:?$/ {
  class = $2
  sub(/:$/, "", class)
  if (FILENAME ~ /\.cc$/) local[FILENAME, class] = 1   # its name may be that of another file's class
}
/^}/ { class = "" }
class != "" && /^  [A-Za-z~\[]/ && !/^  (using|friend|static_assert|return|KJ_[A-Z_]+\() ?/ {
  text = $0
  while (gsub(/<[^<>]*>/, "", text)) {}
  if (text ~ /^  [^=({]*[A-Za-z0-9_~=+*-]+\(/ || text ~ /operator[^a-z]/) ++methods[unit ":" class]
}
# A definition: Type Class::method(…) or Class::Class(…).
FILENAME ~ /\.cc$/ && !/-test\.cc$/ && /^[A-Za-z]/ && match($0, /[A-Za-z0-9_]+(::[A-Za-z0-9_]+)*::~?[A-Za-z0-9_]+\(/) {
  owner = substr($0, RSTART, RLENGTH)
  if (substr($0, 1, RSTART - 1) ~ /[="(]/) next   # an expression
  sub(/::[^:]*$/, "", owner)
  if (owner ~ /^[A-Z]/ && !((FILENAME, owner) in local) && !((FILENAME, owner) in seen)) {
    seen[FILENAME, owner] = 1
    ++homes[space "::" owner]
  }
}
END {
  for (name in lines) check("lines", name, lines[name], 600)
  for (name in methods) check("methods", name, methods[name], 30)
  for (name in homes) check("files", name, homes[name], 1)
  for (name in allowed) {
    if (!(name in used)) { printf "tests/sizes.list: nothing needs \"%s\" any more: remove it\n", name; failed = 1 }
  }
  exit failed
}
function check(what, name, count, most,   limit) {
  if (record) { if (count > most) print what, name, count; return }
  limit = most
  if ((what " " name) in allowed) {
    used[what " " name] = 1
    limit = allowed[what " " name]
    if (count < limit) {
      printf "tests/sizes.list: \"%s %s\" has %d now: lower the number\n", what, name, count
      failed = 1
    }
    if (count <= most) delete used[what " " name]
  }
  if (count <= limit) return
  printf "%s has %d %s, and may have %d (tests/sizes.awk)\n", name, count, what, limit
  failed = 1
}
