// The decision to kill a cgroup before the node is out of memory (docs/config-effects.md).
//
// At each sample the trigger expression is evaluated. While it holds, the ranking expression gives
// each cgroup a score, and the highest score above 0 is killed; with strict classes, that of the
// lowest class that has such a score, and never a service of the node. An expression that has no
// result, as for a division by zero, does not hold, or is a score of 0. Pure: the samples, the
// candidates and the time are passed in.
#pragma once

#include <kj/time.h>

#include "machined/oom/cgroup-memory.h"

namespace talos::machined {

struct OomSettings {
  kj::String trigger = nullptr, ranking = nullptr;  // "": the default
  bool strictClasses = true;
  kj::Duration interval = 500 * kj::MILLISECONDS;

  bool operator==(const OomSettings& other) const;
};

struct Victim {
  KillCandidate cgroup;
  double score;
};

class OomHandler {
 public:
  // Fails with InvalidArgument for an expression that is not valid.
  OomHandler(OomSettings settings, kj::TimePoint now);

  // Returns true if the trigger holds; then time_since_trigger begins again.
  bool triggers(const MemorySample& sample, kj::TimePoint now);
  kj::Maybe<Victim> choose(kj::Vector<KillCandidate> candidates);
  // Returns the mistake of the latest evaluation that had no result, if it is a new one.
  kj::Maybe<kj::String> newMistake();
  const OomSettings& current() const { return settings; }

 private:
  OomSettings settings;
  cel::Program trigger, ranking;
  kj::TimePoint triggered;  // when the trigger held, or the handler started
  struct Earlier {
    MemorySample sample;
    kj::TimePoint time;
  };
  kj::Maybe<Earlier> earlier;
  kj::String mistake = kj::str(), reported = kj::str();

  cel::Values valuesOf(const MemorySample& sample, kj::TimePoint now) const;
  double scoreOf(const KillCandidate& candidate);
  void note(kj::StringPtr expression, const cel::Mistake& found);
};

}  // namespace talos::machined
