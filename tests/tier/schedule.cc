#include "tests/tier/schedule.h"

#include <algorithm>
#include <random>

namespace talos::tier {
namespace {

constexpr const char* kSicknesses[] = {"healthy",    "no kernel",   "hangs",
                                       "boot fails", "unhealthy",   "crash loops",
                                       "no etcd",    "unfetchable", "unwritable"};
constexpr const char* kNames[] = {"power cut",
                                  "power cut at the next write",
                                  "machined crashes",
                                  "etcd-supervisor crashes",
                                  "etcd is killed",
                                  "partition",
                                  "operators are cut off",
                                  "slow node",
                                  "the next write fails",
                                  "upgrade-cluster",
                                  "commands are interrupted",
                                  "upgrade --preserve",
                                  "upgrade",
                                  "upgrade --stage --preserve",
                                  "reboot",
                                  "rollback",
                                  "is lost, and removed from etcd",
                                  "etcd's leadership moves here"};

class Drawing {
 public:
  explicit Drawing(uint64_t seed) : random(seed * 0x9e3779b97f4a7c15 + 1) { it.seed = seed; }

  Schedule draw() {
    auto size = below(20);
    it.controlPlanes = size < 16 ? 3 : size < 18 ? 1 : 5;
    it.workers = oneIn(3) ? 1 : 0;
    drawImages();
    // The seed draws the probabilities, too.
    it.losses = oneIn(2) ? 0 : 0.01 * (1 + below(3));
    it.supervisorCrashes = oneIn(2) ? 0 : 0.02 * (1 + below(4));
    it.supervisorFailures = oneIn(3) ? 0.05 : 0;
    it.drainMs = oneIn(6) ? 150'000 : oneIn(2) ? 3'000 : 100;
    it.healsPartly = oneIn(5);
    it.endMs = 20'000 + below(5) * 15'000 + (it.drainMs > 100'000 ? 120'000 : 0);
    drawOperators();
    auto faults = oneIn(6) ? 0 : 1 + below(6);
    for (unsigned i = 0; i < faults; ++i) drawFault();
    std::stable_sort(it.events.begin(), it.events.end(),
                     [](auto& a, auto& b) { return a.at < b.at; });
    return std::move(it);
  }

 private:
  std::mt19937_64 random;
  Schedule it;

  unsigned below(unsigned limit) { return unsigned(random() % limit); }
  bool oneIn(unsigned count) { return below(count) == 0; }
  unsigned node() { return below(it.nodes()); }

  void drawImages() {
    bool bad = oneIn(3);
    for (auto& image : it.sick) {
      image.resize(it.nodes(), Sickness::kHealthy);
      if (!bad) continue;
      // Either everywhere, or on one node.
      auto sickness = Sickness(1 + below(8));
      auto only = oneIn(2) ? node() : it.nodes();
      for (unsigned i = 0; i < it.nodes(); ++i) {
        if (only == it.nodes() || only == i) image[i] = sickness;
      }
      bad = oneIn(2);  // of the other image
    }
  }

  void add(unsigned at, What what, unsigned amount = 0) {
    auto first = node(), second = node();
    it.events.push_back(Event{at, what, first, second, amount});
  }

  // One operator always upgrades the cluster; a second one does the same, or something else.
  void drawOperators() {
    add(below(2'000), What::kRun, kFirstTarget);
    if (oneIn(2)) add(below(it.endMs / 2), What::kRun, oneIn(3) ? kOtherTarget : kFirstTarget);
    if (oneIn(6)) add(below(it.endMs), What::kInterruptRuns);
    auto more = oneIn(2) ? 0 : 1 + below(3);
    for (unsigned i = 0; i < more; ++i) {
      constexpr What kOthers[] = {What::kUpgrade,      What::kUpgrade, What::kUpgradeAndEmpty,
                                  What::kStage,        What::kReboot,  What::kRollback,
                                  What::kLoseAndRemove};
      add(below(it.endMs), kOthers[below(7)], oneIn(2) ? kOtherTarget : kFirstTarget);
    }
  }

  void drawFault() {
    constexpr What kFaults[] = {
        What::kPowerCut,      What::kCutAtWrite,    What::kCutAtWrite,      What::kCutAtWrite,
        What::kCrashMachined, What::kCrashMachined, What::kCrashSupervisor, What::kCrashSupervisor,
        What::kKillEtcd,      What::kPartition,     What::kPartition,       What::kCutOffOperators,
        What::kSlowNode,      What::kWriteError,    What::kMoveLeadership};
    add(below(it.endMs), kFaults[below(15)], below(oneIn(3) ? 90'000 : 15'000));
  }
};

}  // namespace

const char* nameOf(Sickness sickness) {
  return kSicknesses[size_t(sickness)];
}
const char* nameOf(What what) {
  return kNames[size_t(what)];
}

std::string Event::text() const {
  auto time = std::to_string(at / 1000) + "." + std::to_string(at % 1000 / 100) + " s: ";
  return time + "node " + std::to_string(node + 1) + ": " + nameOf(what) + " (" +
         std::to_string(other + 1) + ", " + std::to_string(amount) + ")";
}

Schedule Schedule::of(uint64_t seed) {
  return Drawing(seed).draw();
}

Schedule Schedule::withOnly(const std::set<unsigned>& numbers) const {
  auto result = *this;
  result.events.clear();
  for (unsigned i = 0; i < events.size(); ++i) {
    if (numbers.contains(i)) result.events.push_back(events[i]);
  }
  return result;
}

std::string Schedule::text() const {
  auto result = std::to_string(controlPlanes) + " control-plane nodes, " + std::to_string(workers) +
                " workers\n";
  for (unsigned image : {0u, 1u}) {
    for (unsigned i = 0; i < nodes(); ++i) {
      if (sick[image][i] == Sickness::kHealthy) continue;
      result += "image " + std::to_string(image + kFirstTarget) + " on node " +
                std::to_string(i + 1) + ": " + nameOf(sick[image][i]) + "\n";
    }
  }
  for (unsigned i = 0; i < events.size(); ++i) {
    result += "  " + std::to_string(i) + ". " + events[i].text() + "\n";
  }
  return result;
}

}  // namespace talos::tier
