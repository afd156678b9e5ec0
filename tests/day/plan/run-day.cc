#include "tests/day/plan/run-day.h"

#include <algorithm>
#include <cstdio>

#include "tests/day/plan/day-text.h"

namespace talos::day {
namespace {

class BoutRun {
 public:
  BoutRun(const Bout& bout, Site& site) : bout(bout), site(site), start(site.now()) {
    for (auto& it : bout.operations) {
      events.push_back({start + it.after / 1000.0, true, &it});
      auto end = start + (it.after + it.lasts) / 1000.0;
      if (!stays(it)) events.push_back({end, false, &it});
      last = std::max(last, end);
    }
    // Beginnings come before ends at one instant: an operation without a length begins first.
    std::ranges::stable_sort(
        events, [](auto& a, auto& b) { return a.at != b.at ? a.at < b.at : a.begins > b.begins; });
  }

  // Returns the first problem.
  std::string run() {
    for (auto& event : events) {
      site.sleepUntil(event.at);
      if (event.begins) {
        site.begin(*event.operation);
      } else {
        end(*event.operation);
      }
    }
    if (!bout.quorum.empty()) {
      site.sleepUntil(last);  // a fault that has just begun may not show yet
      keep(site.converge(bout.quorum), "the quorum does not converge");
      for (auto& it : bout.operations) {
        if (stays(it)) end(it);
      }
    }
    keep(site.converge({}), "the cluster does not converge");
    return problem;
  }

 private:
  struct Event {
    double at;
    bool begins;
    const Operation* operation;
  };
  const Bout& bout;
  Site& site;
  double start, last = 0;  // s; `last`: when the last operation has lasted as long as planned
  std::vector<Event> events;
  std::string problem;

  bool stays(const Operation& it) const {
    return !bout.quorum.empty() && std::ranges::find(bout.quorum, it.node) == bout.quorum.end();
  }
  void keep(const std::string& found, const std::string& of) {
    if (problem.empty() && !found.empty()) problem = of + ": " + found;
  }
  void end(const Operation& it) { keep(site.end(it), textOf(it)); }
};

std::string seconds(double value) {
  char text[32];
  snprintf(text, sizeof text, "%.1f s", value);
  return text;
}

}  // namespace

Outcome runDay(const Day& day, Site& site, double until) {
  Outcome outcome;
  for (size_t number = 0; number < day.rounds.size(); ++number) {
    auto& round = day.rounds[number];
    for (size_t i = 0; i < round.size(); ++i) {
      if (site.now() >= until) return outcome;
      auto began = site.now();
      for (auto& it : round[i].operations) site.note(textOf(it));
      outcome.problem = BoutRun(round[i], site).run();
      if (outcome.problem.empty()) outcome.problem = site.check(i + 1 == round.size());
      outcome.operations += unsigned(round[i].operations.size());
      if (!outcome.problem.empty()) {
        outcome.failed = outcome.bouts;
        site.note("problem: " + outcome.problem);
        return outcome;
      }
      ++outcome.bouts;
      site.note("round " + std::to_string(number + 1) + " bout " + std::to_string(i + 1) +
                (round[i].quorum.empty() ? "" : ", liveness") + ": well after " +
                seconds(site.now() - began));
    }
  }
  return outcome;
}

}  // namespace talos::day
