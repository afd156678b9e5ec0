#include "tests/kubernetes/rolling-figures.h"

#include <iterator>

namespace talos {

std::string StepClock::stepOf(const std::string& message) {
  static const struct {
    const char *text, *step;
  } kSteps[] = {{"fetch", "fetch"},      {"drain: ", "drain"},  {"writing", "write"},
                {"rebooting", "away"},   {"no answer", "away"}, {"trying slot", "trial"},
                {"running slot", "wait"}};
  for (auto& [text, step] : kSteps) {
    if (message.starts_with(text) || harness::contains(message, std::string(" ") + text)) {
      return step;
    }
  }
  return "wait";
}

void StepClock::read(const std::string& out, Clock::time_point now) {
  for (size_t end; (end = out.find('\n', seen)) != std::string::npos; seen = end + 1) {
    auto event = kube::Json::parse(out.substr(seen, end - seen), nullptr, false);
    if (event.is_discarded() || !event.contains("message")) continue;
    spent[step] += std::chrono::duration<double>(now - since).count();
    since = now;
    step = stepOf(event["message"].get<std::string>());
  }
}

std::string RunCost::row() const {
  char row[400];
  snprintf(row, sizeof row, "| %s | %s | %.0f s | %u | %u | %u | %.1f s | %d | %d |\n",
           version.c_str(), interruption.c_str(), seconds, writes.calls, writes.failed, writes.lost,
           writes.longest, leaderChanges, podsRestarted);
  return row;
}

std::string RunCost::json() const {
  kube::Json line{{"seconds", seconds},
                  {"calls", writes.calls},
                  {"failed", writes.failed},
                  {"lost", writes.lost},
                  {"longestS", writes.longest},
                  {"leaderChanges", leaderChanges},
                  {"podsRestarted", podsRestarted},
                  {"steps", steps}};
  return line.dump() + "\n";
}

}  // namespace talos
