// For rolling-upgrade-test.cc: the seconds of each step of a run, by its events as they arrive, and
// the cost of a run, as a row of a table or as a line of JSON.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "tests/kubernetes/api-writer.h"

namespace talos {

// A clock that counts each moment for the step of the latest event: workers, too, are upgraded one
// after the other.
class StepClock {
 public:
  using Clock = std::chrono::steady_clock;

  // Reads the output of the run so far, JSON lines.
  void read(const std::string& out, Clock::time_point now);
  // Returns the seconds of "fetch", "plan", "wait", "drain", "write", "away", "trial".
  std::map<std::string, double> seconds() const { return spent; }
  // Returns the step that an event's message belongs to.
  static std::string stepOf(const std::string& message);

 private:
  size_t seen = 0;  // bytes of whole lines
  std::string step = "plan";
  Clock::time_point since = Clock::now();
  std::map<std::string, double> spent;
};

struct RunCost {
  std::string version, interruption;
  double seconds = 0;
  ApiWriter::Figures writes;
  int leaderChanges = 0, podsRestarted = 0;
  std::map<std::string, double> steps;

  std::string row() const;
  std::string json() const;
};

}  // namespace talos
