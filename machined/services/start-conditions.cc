#include "machined/services/start-conditions.h"

namespace talos::machined {
namespace {

constexpr auto kRecheck = 1 * kj::SECONDS;

kj::String toBeUp(kj::StringPtr service) {
  return kj::str("service \"", service, "\" to be \"up\"");
}

kj::String atMost(kj::Duration limit) {
  return kj::str(", for at most ", limit / kj::SECONDS, " s");
}

}  // namespace

MissingForStart missingForStart(const ServiceDefinition& definition, const ServiceSet& all,
                                bool hasRun) {
  MissingForStart missing;
  for (auto& condition : definition.conditions) {
    if (!condition->met()) missing.conditions.add(condition->description());
  }
  for (auto& other : definition.dependsOn) {
    if (!all.isUp(other)) missing.conditions.add(toBeUp(other));
  }
  missing.waitsAtMost = definition.waitsAtMost();
  for (auto& other : definition.waitsFor) {
    if (!hasRun && all.isStarting(other)) missing.dispensable.add(toBeUp(other));
  }
  for (auto& other : definition.givesWayTo) {
    if (!all.isStarting(other)) continue;
    missing.ahead.add(kj::str(toBeUp(other), atMost(definition.givesWayFor)));
  }
  return missing;
}

kj::Duration StartWait::Allowance::left(kj::Duration length, kj::TimePoint now) {
  auto since = begin.orDefault(now);
  begin = since;
  return kj::max(0 * kj::SECONDS, since + length - now);
}

StartWait::Decision StartWait::decide(MissingForStart missing, kj::TimePoint now) {
  Decision decision;
  auto awaited = kj::mv(missing.conditions);
  auto recheck = kRecheck;
  if (auto& more = missing.dispensable; !doesWithout && !more.empty()) {
    auto left = awaited.empty() ? waiting.left(missing.waitsAtMost, now) : recheck;
    recheck = kj::min(recheck, left);
    doesWithout = left == 0 * kj::SECONDS;
    if (doesWithout) {
      decision.events.add(
          kj::str("Starting without waiting any longer for ", kj::strArray(more, ", ")));
    } else {
      for (auto& other : more) awaited.add(kj::str(other, atMost(missing.waitsAtMost)));
    }
  }
  if (awaited.empty()) {
    auto left = givingWay.left(givesWayFor, now);
    if (left > 0 * kj::SECONDS) awaited = kj::mv(missing.ahead);
    recheck = kj::min(kRecheck, left);
  }
  if (awaited.empty()) return decision;
  auto text = kj::str("Waiting for ", kj::strArray(awaited, ", "));
  if (text != shownText) {
    decision.events.add(kj::str(text));
    shownText = kj::mv(text);
  }
  decision.checkNext = recheck;
  return decision;
}

}  // namespace talos::machined
