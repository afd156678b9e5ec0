// For rolling-upgrade-test.cc: the seconds of each step of a run, by its events as they arrive, and
// what a run cost, as a row of a table or as a line of JSON.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "tests/kubernetes/api-writer.h"

namespace talos {

// Each moment counts for the step of the latest event: workers, too, are upgraded one after the
// other.
class StepClock {
 public:
  using Clock = std::chrono::steady_clock;

  // All that the run has printed so far, JSON lines.
  void read(const std::string& out, Clock::time_point now);
  // "fetch", "plan", "wait", "drain", "write", "away", "trial" to seconds.
  std::map<std::string, double> seconds() const { return spent; }
  // The step that an event's message belongs to.
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
