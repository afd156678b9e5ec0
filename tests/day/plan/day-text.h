// The text of a day, which people read and which replays it: one line an operation.
//
//   # comment
//   day seed=17 minutes=60
//   workload registers keys=6 clients=3
//   weight kill 4
//   round
//   bout
//   op 1 cut-link at=master-1 peer=master-3 after=1200 lasts=6000 salt=5
//   bout quorum=master-1,master-2
//   op 2 stop at=master-3 program=etcd after=0 lasts=2500 salt=77
//
// Times are milliseconds. A text without rounds describes the workloads of a day that is drawn.
#pragma once

#include <set>
#include <string>

#include "tests/day/plan/day.h"

namespace talos::day {

std::string textOf(const Day& day);
std::string textOf(const Operation& operation);

// The workloads that a text may name, each with the names of its settings.
using KnownWorkloads = std::map<std::string, std::set<std::string>>;

// Throws std::runtime_error with file, line, what is wrong and what would be right.
Day parseDay(const std::string& text, const std::string& file, const KnownWorkloads& known);

}  // namespace talos::day
