# Retired words:  awk -f words.awk FILE...   (*.cc, *.h, *.inc, *.capnp; *.sh, *.list, CMakeLists.txt, Makefile)
# docs/style.md has the table of words that were replaced by the field's own terms. This prints file:line of
#   - each identifier that has a retired word as a component (camelCase and snake_case), outside of strings and comments;
#     not in scripts, lists and makefiles, whose words are mostly other people's,
#   - each comment block whose first word is What, Who, Whose, Whether or Which; a block ends at an empty comment line, too,
#   - each file name with a retired word,
# and exits with 1 if there are any.
BEGIN {
  lower = "told|untold|wish|wishes|wished|keepers?|boards?|worlds?|edges|surroundings|standing|voices?|doors?|patience"
  upper = toupper(lower)
  n = split(lower, words, "|")
  for (i = 1; i <= n; ++i) {
    capital = capital (i == 1 ? "" : "|") toupper(substr(words[i], 1, 1)) substr(words[i], 2)
  }
  component = "(^|[^A-Za-z])(" lower ")([^a-z]|$)|(" capital ")([^a-z]|$)|(^|[^A-Za-z])(" upper ")([^A-Za-z]|$)"
  # Whole identifiers that are terms of the field.
  n = split("", words, " ")
  for (i = 1; i <= n; ++i) allowed[words[i]] = 1
}
FNR == 1 {
  schema = FILENAME ~ /\.capnp$/
  script = FILENAME ~ /(\.sh|\.list|(^|\/)CMakeLists\.txt|(^|\/)Makefile)$/
  raw = ""
  in_block = 0
  if (FILENAME ~ component) report("retired word in the file name")
}
{
  line = $0
  if (raw == "" && line ~ (schema || script ? "^ *#" : "^ *//")) {
    if (line ~ /^ *[\/#]+ *$/ || line ~ /^#!/) {   # the interpreter of a script is no comment
      in_block = 0
      next
    }
    if (!in_block && line ~ /^ *[\/#]+ *([Ww]hat|[Ww]ho|[Ww]hose|[Ww]hether|[Ww]hich)([^A-Za-z0-9_]|$)/) {
      sub(/^ */, "", line)
      report("question at the start of a comment: " line)
    }
    in_block = 1
    next
  }
  in_block = 0
  if (script) next
  if (raw == "" && index(line, "R\"") == 0 && line !~ component) next
  n = split(code(line), words, /[^A-Za-z0-9_]+/)
  for (i = 1; i <= n; ++i) {
    if (words[i] ~ component && !(words[i] in allowed)) report("retired word: " words[i])
  }
}
END { exit wrong }

# The line without comments, strings and characters. `raw` is the end of a raw string that continues in the next line.
function code(text,   out, at, c, end) {
  out = ""
  while (text != "") {
    if (raw != "") {
      at = index(text, raw)
      if (at == 0) return out
      text = substr(text, at + length(raw))
      raw = ""
      continue
    }
    if (!match(text, schema ? "[\"#]" : "[\"'/]")) return out text
    c = substr(text, RSTART, 1)
    out = out substr(text, 1, RSTART - 1)
    text = substr(text, RSTART)
    if (c == "#" || substr(text, 1, 2) == "//") return out
    if (c == "/" || (c == "'" && out ~ /[0-9a-fA-F]$/)) {   # a division, 1'000
      out = out " "
      text = substr(text, 2)
    } else if (c == "\"" && out ~ /R$/) {
      end = index(text, "(")
      raw = ")" substr(text, 2, end - 2) "\""
      text = substr(text, end + 1)
    } else {
      text = substr(text, 2)
      while (text != "" && substr(text, 1, 1) != c) text = substr(text, substr(text, 1, 1) == "\\" ? 3 : 2)
      text = substr(text, 2)
      out = out " "
    }
  }
  return out
}

function report(finding) {
  printf "%s:%d: %s\n", FILENAME, FNR, finding
  wrong = 1
}
