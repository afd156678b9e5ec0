// Runs the plan of a day on a cluster, or in a unit test on a model of one with a virtual clock.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/day/plan/day.h"

namespace talos::day {

// The cluster, its clock and its oracles. A problem is a text; an empty one says that all is well.
class Site {
 public:
  virtual ~Site() = default;

  virtual double now() = 0;  // s
  virtual void sleepUntil(double at) = 0;

  // Begins an operation. A command continues beside the caller.
  virtual void begin(const Operation& operation) = 0;
  // Undoes the fault, or waits for the end of the command. Returns a problem of the outcome.
  virtual std::string end(const Operation& operation) = 0;
  // Waits until these nodes are well; without nodes, until the whole cluster is.
  virtual std::string converge(const std::vector<unsigned>& nodes) = 0;
  // Returns the first problem that an oracle has seen. `isEndOfRound`: oracles that take long look,
  // too.
  virtual std::string check(bool isEndOfRound) = 0;
  // Prints a line of the day's history.
  virtual void note(const std::string& line) = 0;
};

struct Outcome {
  unsigned bouts = 0, operations = 0;  // that were done
  std::string problem;                 // empty: the day has passed
  std::optional<unsigned> failed;      // the bout of the problem, counted from 0
};

// Runs the bouts until one has a problem or `until` has passed, in seconds of the site's clock.
// Every operation that has begun is ended, also after a problem.
Outcome runDay(const Day& day, Site& site, double until);

}  // namespace talos::day
