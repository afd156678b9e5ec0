#include "kubed/manifests/manifest-progress.h"

#include <string.h>

#include <set>
#include <string>

namespace talos::kubed {
namespace {

std::set<std::string> wantedIds(kj::ArrayPtr<const ManifestText> manifests) {
  std::set<std::string> ids;
  for (auto& one : manifests) ids.insert(one.id.cStr());
  return ids;
}

}  // namespace

void ManifestProgress::recall(kj::Vector<kj::String> ids) {
  recalled = kj::mv(ids);
}

kj::Vector<ManifestText> ManifestProgress::due(kj::ArrayPtr<const ManifestText> all,
                                               uint64_t newBasis, bool again) {
  if (newBasis != basis) outcomes.clear();
  basis = newBasis;
  auto wanted = wantedIds(all);
  kj::Vector<kj::String> gone;
  for (auto& entry : outcomes) {
    if (wanted.count(entry.key.cStr()) == 0) gone.add(kj::str(entry.key));
  }
  for (auto& id : gone) outcomes.erase(id);

  kj::Vector<ManifestText> due;
  for (auto& one : all) {
    bool done = false;
    KJ_IF_MAYBE (outcome, outcomes.find(one.id)) {
      done = outcome->version == one.version && !(again && outcome->failure.size() > 0);
    }
    if (!done) due.add(one);
  }
  return due;
}

void ManifestProgress::note(kj::ArrayPtr<const ManifestText> tried,
                            const CreatedManifests& result) {
  for (auto& one : tried) {
    Outcome outcome{one.version, nullptr};
    for (auto& failed : result.failures) {
      if (failed.id == one.id) outcome.failure = kj::str(failed.error);
    }
    outcomes.upsert(kj::str(one.id), kj::mv(outcome),
                    [](Outcome& old, Outcome&& fresh) { old = kj::mv(fresh); });
  }
}

kj::Vector<kj::String> ManifestProgress::applied(kj::ArrayPtr<const ManifestText> all,
                                                 bool known) const {
  auto wanted = wantedIds(all);
  std::set<std::string> ids;
  for (auto& entry : outcomes) {
    if (entry.value.failure.size() == 0) ids.insert(entry.key.cStr());
  }
  for (auto& id : recalled) {
    if (outcomes.find(id) == nullptr) ids.insert(id.cStr());
  }
  kj::Vector<kj::String> applied;
  for (auto& id : ids) {
    if (!known || wanted.count(id) > 0) applied.add(kj::str(id.c_str()));
  }
  return applied;
}

kj::String ManifestProgress::failure() const {
  kj::Vector<kj::String> failures;
  for (auto& entry : outcomes) {
    auto& error = entry.value.failure;
    if (error.size() == 0) continue;
    bool named = strstr(error.cStr(), entry.key.cStr()) != nullptr;
    failures.add(named ? kj::str(error) : kj::str("manifest ", entry.key, ": ", error));
  }
  return kj::strArray(failures, "; ");
}

}  // namespace talos::kubed
