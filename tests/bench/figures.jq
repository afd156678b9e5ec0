# What is made of build/bench/figures.json: the table of a run, the page docs/evidence/figures.md, and the comparison of
# two runs. Pure; figures-test.sh tests it. A run is {date, commit, cpu, cpus, kernel, runs, loadBefore, loadAfter,
# skipped: [title], sections: [{name, title, failed}], again: [{date, load, titles}] if sections were measured again,
# figures: [{section, name, unit, ours, aim, met, peer, theirs, ratio}]}.

# Returns the figures with a key that no other figure of the run has.
def keyed:
  reduce .figures[] as $figure ({seen: {}, rows: []};
    ([$figure.section, $figure.name, $figure.unit, $figure.peer] | tojson) as $name
    | .seen[$name] += 1
    | .rows += [$figure + {key: "\($name) \(.seen[$name])"}])
  | .rows;

def rises: . == "1/s" or . == "MiB/s" or . == "Gbit/s";   # a unit: more is better

# Returns ours as a multiple of the peer's, or its inverse if more is better, so that less is better; null if there is no
# such number.
def cost:
  if .ours == null or .theirs == null then null
  elif (.unit | rises) then (if .ours > 0 then .theirs / .ours else null end)
  elif .theirs > 0 then .ours / .theirs
  else null end;

# Returns a row for each figure of both runs, in the order of the later run: {section, name, unit, before, now, change,
# verdict}. `change` is that of the cost, 0.1 for a tenth more, or null. `verdict` is "worse" or "better" if the cost has
# changed by more than `limit`, "same" if it has not, and null if there is no peer in both runs: machines differ, so ours
# alone proves nothing.
def compared($before; $limit):
  (reduce ($before | keyed[]) as $row ({}; .[$row.key] = $row)) as $old
  | [keyed[] | . as $now | $old[.key] // empty | . as $then
     | ($then | cost) as $a | ($now | cost) as $b
     | {section: $now.section, name: $now.name, unit: $now.unit, before: $then, now: $now}
     | if $a == null or $b == null then . + {change: null, verdict: null}
       elif $a == 0 then . + {change: null, verdict: (if $b > 0 then "worse" else "same" end)}
       else ($b / $a - 1) as $change
         | . + {change: $change,
                verdict: (if $change > $limit then "worse" elif $change < -$limit then "better" else "same" end)}
       end];

def among($list): . as $one | $list | any(. == $one);

# Returns what only this run has: the titles of sections, and the names of figures of sections that both runs have.
def only($other):
  ([$other.figures[].section] | unique) as $both
  | ([$other | keyed[].key]) as $keys
  | [.figures[].section] as $own
  | [(.sections[] | select(.name | among($own)) | select(.name | among($both) | not) | "section \"\(.title)\""),
     (keyed[] | select(.section | among($both)) | select(.key | among($keys) | not) | .name)];

# Returns the run `before` with the sections and figures of this one in place of those that failed, in the given order.
def completed($before; $order):
  . as $now
  | [.sections[].name] as $measured
  | $before
  | .sections = ([$before.sections[] | select(.name | among($measured) | not)] + $now.sections
                 | sort_by(.name as $name | $order | index($name)))
  | .figures = [$before.figures[] | select(.section | among($measured) | not)] + $now.figures
  | .again = ($before.again // []) + [{date: $now.date, load: $now.loadBefore, titles: [$now.sections[].title]}];

def shown: if . == null then "-" else tostring end;
def percent: if . == null then "-" else (. * 100 | round) as $p | "\(if $p > 0 then "+" else "" end)\($p) %" end;
def met: if . == null then null elif . then "yes" else "no" end;
def cells: [.name, .unit, .ours, .aim, (.met | met), .theirs, .ratio, .peer] | map(shown);

# The lines of tables, with tabs for column(1).
def table:
  (["FIGURE", "UNIT", "OURS", "AIM", "MET", "PEER", "PEER/OURS", "PEER IS"], (.figures[] | cells)) | @tsv;
def comparison:
  (["FIGURE", "UNIT", "OURS WAS", "PEER WAS", "OURS", "PEER", "CHANGE", "VERDICT", "PEER IS"],
   (.[] | [.name, .unit, .before.ours, .before.theirs, .now.ours, .now.theirs, (.change | percent),
           (.verdict // "not judged"), .now.peer] | map(shown)))
  | @tsv;

def markdown: gsub("\\|"; "\\|");
def row: "| \(map(markdown) | join(" | ")) |";

# The whole page.
def page:
  . as $run
  | [.sections[] | select(.failed) | .title] as $failed
  | ["# Figures", "",
     "`make bench FIGURES=docs/evidence/figures.md` writes this page. All figures are of one run, ours and the peers' in turn",
     "on the same machine. [measuring.md](measuring.md) says how each is measured, and why aims are missed.", "",
     "| | |", "|---|---|",
     (["Date", .date], ["Commit", .commit], ["Machine", "\(.cpus) CPUs (\(.cpu)), Linux \(.kernel)"],
      ["Load", "\(.loadBefore) before, \(.loadAfter) after"], ["Repetitions", "\(.runs)"],
      (.again // [] | .[] | ["Measured again", "\(.titles | join("; ")), on \(.date) at a load of \(.load), because they had failed"]),
      (if $failed != [] then ["Failed", ($failed | join("; "))] else empty end),
      (if .skipped != [] then ["Not measured", (.skipped | join("; "))] else empty end)
      | row), "",
     "\"Peer/ours\" above 1 means that ours is better, except for rates (1/s, MiB/s, Gbit/s), where it means that the peer is",
     "faster. \"Met\" says whether the aim was met; `-` if the figure has no aim.",
     (.sections[] | . as $section | [$run.figures[] | select(.section == $section.name)] | select(. != [])
      | "", "## \($section.title | .[:1] | ascii_upcase)\($section.title[1:])", "",
        "| Figure | Unit | Ours | Aim | Met | Peer | Peer/ours | The peer is |", "|---|---|---|---|---|---|---|---|",
        (.[] | cells | row))]
  | .[];
