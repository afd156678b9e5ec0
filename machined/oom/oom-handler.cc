#include "machined/oom/oom-handler.h"

#include <math.h>

#include "common/base/error.h"

namespace talos::machined {
namespace {

cel::Program programOf(cel::Compiled compiled, kj::StringPtr text) {
  KJ_IF_MAYBE (mistake, compiled.mistake) {
    fail(ErrorKind::kInvalidArgument, cel::render(text, *mistake));
  }
  return kj::mv(compiled.program);
}

// Returns the change in a second; 0 between two infinite values.
double changeOf(double now, double before, double seconds) {
  return seconds > 0 && isfinite(now) && isfinite(before) ? (now - before) / seconds : 0;
}

// A value of the node or of each class, and its change in a second.
class Writer {
 public:
  Writer(cel::Values& values, const MemorySample& now, const MemorySample& before, double seconds)
      : values(values), now(now), before(before), seconds(seconds) {}

  template <typename Get>
  void node(kj::StringPtr name, Get get) {
    add("", name, cel::Value::of(double(get(now))));
    add("d_", name, cel::Value::of(changeOf(get(now), get(before), seconds)));
  }
  template <typename Get>
  void classes(kj::StringPtr name, Get get) {
    cel::Vector present, change;
    for (auto i : kj::indices(now.classes)) {
      auto key = static_cast<int64_t>(i);
      present[key] = get(now.classes[i]);
      // A cgroup that appears, or that could not be read, would change by all since the boot.
      bool same = now.classes[i].measured == before.classes[i].measured;
      change[key] = same ? changeOf(get(now.classes[i]), get(before.classes[i]), seconds) : 0;
    }
    add("qos_", name, cel::Value::of(kj::mv(present)));
    add("d_qos_", name, cel::Value::of(kj::mv(change)));
  }

 private:
  cel::Values& values;
  const MemorySample& now;
  const MemorySample& before;
  double seconds;

  void add(kj::StringPtr prefix, kj::StringPtr name, cel::Value value) {
    values[kj::str(prefix, "memory_", name).cStr()] = kj::mv(value);
  }
};

bool isBetter(const Victim& a, const Victim& b, bool strictClasses) {
  if (strictClasses && a.cgroup.cgroupClass != b.cgroup.cgroupClass) {
    return a.cgroup.cgroupClass < b.cgroup.cgroupClass;
  }
  return a.score > b.score;
}

}  // namespace

bool OomSettings::operator==(const OomSettings& other) const {
  return trigger == other.trigger && ranking == other.ranking &&
         strictClasses == other.strictClasses && interval == other.interval;
}

OomHandler::OomHandler(OomSettings given, kj::TimePoint now)
    : settings(kj::mv(given)),
      trigger(programOf(cel::compileTrigger(settings.trigger), cel::triggerOf(settings.trigger))),
      ranking(programOf(cel::compileRanking(settings.ranking), cel::rankingOf(settings.ranking))),
      triggered(now) {}

cel::Values OomHandler::valuesOf(const MemorySample& sample, kj::TimePoint now) const {
  cel::Values values;
  const MemorySample* before = &sample;
  double seconds = 0;
  KJ_IF_MAYBE (e, earlier) {
    before = &e->sample;
    seconds = static_cast<double>((now - e->time) / kj::NANOSECONDS) / 1e9;
  }
  Writer writer(values, sample, *before, seconds);
  for (auto i : kj::indices(cel::kPressures)) {
    writer.node(cel::kPressures[i], [&](auto& s) { return s.node.values[i]; });
    writer.classes(cel::kPressures[i], [&](auto& c) { return c.pressure.values[i]; });
  }
  for (auto i : kj::indices(cel::kUses)) {
    writer.classes(cel::kUses[i], [&](auto& c) { return c.uses[i]; });
  }
  values["time_since_trigger"] = cel::Value::of(now - triggered);
  return values;
}

bool OomHandler::triggers(const MemorySample& sample, kj::TimePoint now) {
  auto result = trigger.run(valuesOf(sample, now));
  earlier = Earlier{sample, now};
  KJ_IF_MAYBE (found, result.mistake) {
    note(cel::triggerOf(settings.trigger), *found);
    return false;
  }
  if (result.value.flag) triggered = now;
  return result.value.flag;
}

double OomHandler::scoreOf(const KillCandidate& candidate) {
  cel::Values values;
  for (auto i : kj::indices(cel::kUses)) {
    values[kj::str("memory_", cel::kUses[i]).cStr()] = cel::Value::of(candidate.uses[i]);
  }
  values["path"] = cel::Value::of(candidate.path.asPtr());
  values["class"] = cel::Value::of(static_cast<int64_t>(candidate.cgroupClass));
  auto result = ranking.run(values);
  KJ_IF_MAYBE (found, result.mistake) {
    note(cel::rankingOf(settings.ranking), *found);
    return 0;
  }
  return result.value.number;
}

kj::Maybe<Victim> OomHandler::choose(kj::Vector<KillCandidate> candidates) {
  kj::Maybe<Victim> best;
  for (auto& candidate : candidates) {
    if (settings.strictClasses && candidate.cgroupClass == CgroupClass::kSystem) continue;
    Victim victim{kj::mv(candidate), 0};
    victim.score = scoreOf(victim.cgroup);
    if (!(victim.score > 0)) continue;
    bool better = true;
    KJ_IF_MAYBE (b, best) better = isBetter(victim, *b, settings.strictClasses);
    if (better) best = kj::mv(victim);
  }
  return best;
}

void OomHandler::note(kj::StringPtr expression, const cel::Mistake& found) {
  mistake = cel::render(expression, found);
}

kj::Maybe<kj::String> OomHandler::newMistake() {
  if (mistake == reported) return nullptr;
  reported = kj::str(mistake);
  return kj::str(mistake);
}

}  // namespace talos::machined
