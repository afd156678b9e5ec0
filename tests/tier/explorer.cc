#include "tests/tier/explorer.h"

#include <kj/exception.h>

namespace talos::tier {
namespace {

// Returns the kind of a violation: its text without numbers.
std::string kindOfViolation(const std::string& violation) {
  std::string kind;
  for (auto c : violation.substr(0, violation.find(':'))) {
    if (c < '0' || c > '9') kind += c;
  }
  return kind;
}

// Saves the time of making traces of exceptions, which are answers here.
class WithoutTraces final : public kj::ExceptionCallback {
 public:
  StackTraceMode stackTraceMode() override { return StackTraceMode::NONE; }
};

}  // namespace

Explorer::Explorer() = default;

Outcome Explorer::play(const Schedule& schedule, PlayOptions options) {
  WithoutTraces withoutTraces;
  kj::Maybe<supervisor::Quiet> quiet;
  if (!options.tells) quiet.emplace();
  return Tier(stores, schedule, options).play();
}

Found Explorer::explore(uint64_t from, uint64_t count, const Mistakes& mistakes,
                        kj::Function<void(const Found&)> progressed) {
  Found found;
  for (auto seed = from; seed < from + count; ++seed) {
    auto outcome = play(Schedule::of(seed), {.mistakes = mistakes});
    ++found.schedules;
    found.events += outcome.events;
    found.writes += outcome.writes;
    found.virtualSeconds += uint64_t(outcome.time / kj::SECONDS);
    for (size_t i = 0; i < kProbes; ++i) found.probes[i] += outcome.probes[i] > 0;
    found.states.merge(outcome.states);
    if (!outcome.violation.empty()) {
      found.violation = outcome.violation;
      found.seed = seed;
      break;
    }
    progressed(found);
  }
  return found;
}

std::set<unsigned> Explorer::shrink(const Schedule& schedule, const Mistakes& mistakes) {
  std::set<unsigned> numbers;
  for (unsigned i = 0; i < schedule.events.size(); ++i) numbers.insert(i);
  auto kind = kindOfViolation(play(schedule, {.mistakes = mistakes}).violation);
  for (bool again = true; again;) {
    again = false;
    for (auto number : std::set<unsigned>(numbers)) {
      auto fewer = numbers;
      fewer.erase(number);
      auto outcome = play(schedule, {.mistakes = mistakes, .only = &fewer});
      if (outcome.violation.empty() || kindOfViolation(outcome.violation) != kind) continue;
      numbers = std::move(fewer);
      again = true;
    }
  }
  return numbers;
}

std::string Explorer::report(uint64_t seed, const Mistakes& mistakes) {
  auto schedule = Schedule::of(seed);
  auto numbers = shrink(schedule, mistakes);
  auto outcome = play(schedule, {.mistakes = mistakes, .tells = true, .only = &numbers});
  std::string list, text = outcome.violation + "\n" + schedule.text() + "of these events:";
  for (auto number : numbers) {
    list += (list.empty() ? "" : ",") + std::to_string(number);
  }
  text += " " + list + "\n";
  for (auto& line : outcome.story) text += "  " + line + "\n";
  return text + "again: TIER_SEED=" + std::to_string(seed) + " TIER_ONLY=" + list +
         " make one ROOM=tests/tier FILTER='Tier.PlaysOneSchedule'\n";
}

}  // namespace talos::tier
