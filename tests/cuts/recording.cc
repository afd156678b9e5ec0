#include "tests/cuts/recording.h"

#include <gtest/gtest.h>
#include <kj/debug.h>
#include <stdlib.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <iostream>

#include "common/base/error.h"

namespace talos::cuts {
namespace {

constexpr uint64_t kMostBytes = 4ull << 30;

void copySparse(const std::string& from, const std::string& to) {
  auto copied = harness::run({"/usr/bin/cp", "--sparse=always", from, to}, 120);
  KJ_REQUIRE(copied.status == 0, copied.err.c_str());
}

void keep(const std::string& log) {
  auto* test = testing::UnitTest::GetInstance()->current_test_info();
  auto kept = std::filesystem::read_symlink("/proc/self/exe").parent_path() /
              (std::string(test->test_suite_name()) + "." + test->name() + ".disk-log");
  copySparse(log, kept.string());
  std::cerr << "the recording is kept: " << kept.string() << "\n";
}

}  // namespace

Recording::Recording(const VolatileCluster& cluster, const std::string& node)
    : cluster(cluster), file(scratch.path() + "/log") {
  cluster.disks().record(node, file, kMostBytes);
}

Recording::~Recording() {
  cluster.disks().stopRecording(file);
  if (!testing::Test::HasFailure() && std::uncaught_exceptions() == 0) return;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { keep(file); })) {
    std::cerr << "the recording cannot be kept: " << messageOf(*e).cStr() << "\n";
  }
}

size_t Recording::position() {
  return cluster.disks().recording(file).events;
}

void Recording::stop() {
  cluster.disks().stopRecording(file);
  KJ_REQUIRE(problem().empty(), "the recording is not whole", problem().c_str());
}

bool Recording::goesOn() {
  return cluster.disks().recording(file).running;
}

std::string Recording::problem() {
  return cluster.disks().recording(file).problem.cStr();
}

unsigned cutsToMake(unsigned few) {
  const char* asked = getenv("POWER_CUTS");
  return asked == nullptr ? few : static_cast<unsigned>(atoi(asked));
}

std::vector<CutAt> chooseCuts(const Replay& replay, const std::vector<Window>& windows,
                              unsigned count) {
  constexpr size_t kNearEnd = 24;  // where most is decided
  std::vector<CutAt> ends, all, cuts;
  for (size_t i = 0; i < windows.size(); ++i) {
    auto& window = windows[i];
    std::vector<CutAt> writes;
    for (size_t event = window.begin; event < std::min(window.end, replay.events()); ++event) {
      if (replay.changes(event))
        writes.push_back({.window = i, .event = event, .when = Replay::When::kAt, .seed = 0});
    }
    all.insert(all.end(), writes.begin(), writes.end());
    for (size_t w = 0; w < writes.size(); ++w) {
      if (w < kNearEnd || w + kNearEnd >= writes.size()) ends.push_back(writes[w]);
    }
    if (window.answered)
      cuts.push_back({.window = i, .event = window.end, .when = Replay::When::kBefore, .seed = 0});
  }
  KJ_REQUIRE(!all.empty(), "nothing was written");
  std::mt19937_64 chance(std::random_device{}());
  for (auto* from : {&ends, &all}) {
    auto until = from == &all ? count : (count + cuts.size()) / 2;
    while (cuts.size() < until) {
      std::shuffle(from->begin(), from->end(), chance);
      for (auto& write : *from) {
        if (cuts.size() >= until) break;
        cuts.push_back(write);
        cuts.back().seed = chance() % 2 == 0 ? 0 : 1 + chance() % 1'000'000;
      }
    }
  }
  std::sort(cuts.begin(), cuts.end(), [](auto& a, auto& b) { return a.event < b.event; });
  return cuts;
}

void Outcomes::add(const std::string& kind, const disk::Cut& cut) {
  ++kinds[kind];
  torn += cut.torn;
  partly += cut.kept > 0 && cut.kept < cut.unflushed;
}

void Outcomes::print(const Replay& replay) const {
  std::cerr << "power cuts of " << operation << ": " << all() << " cuts in " << replay.writes()
            << " writes and " << replay.events() - replay.writes() << " flushes; ";
  for (auto& [kind, count] : kinds) std::cerr << kind << " " << count << ", ";
  std::cerr << "some of the unflushed writes kept " << partly << ", one torn " << torn << "\n";
}

unsigned Outcomes::of(const std::string& kind) const {
  auto found = kinds.find(kind);
  return found == kinds.end() ? 0 : found->second;
}

unsigned Outcomes::all() const {
  unsigned sum = 0;
  for (auto& [kind, count] : kinds) sum += count;
  return sum;
}

std::vector<Sample> replayCuts(Replay& replay, const std::vector<CutAt>& cuts, Outcomes& outcomes,
                               const std::function<std::string(const CutAt&)>& look, size_t samples,
                               const std::string& folder) {
  std::vector<Sample> taken;
  for (size_t i = 0; i < cuts.size(); ++i) {
    auto& at = cuts[i];
    std::string kind;
    auto cut = replay.cut(at.event, at.when, at.seed, [&] {
      KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { kind = look(at); })) {
        kind = "BAD";
        ADD_FAILURE() << "cut " << (at.when == Replay::When::kAt ? "at" : "before") << " event "
                      << at.event << " of " << replay.events() << ", seed " << at.seed << ": "
                      << messageOf(*e).cStr();
      }
      // In the middle of each of as many parts.
      if (taken.size() == samples) return;
      if (i != (2 * taken.size() + 1) * cuts.size() / (2 * samples)) return;
      Sample sample{at, kind, {}};
      for (auto& image : replay.images()) {
        sample.images.push_back(folder + "/sample-" + std::to_string(taken.size()) + "-" +
                                std::to_string(sample.images.size()));
        copySparse(image, sample.images.back());
      }
      taken.push_back(std::move(sample));
    });
    outcomes.add(kind, cut);
  }
  outcomes.print(replay);
  return taken;
}

void startWith(const VolatileCluster& cluster, const std::string& node, const Sample& sample) {
  cluster.talosctl({"cluster", "node", "kill", node}, 60);  // or it is off
  cluster.disks().waitUntilOff(node);
  for (size_t i = 0; i < sample.images.size(); ++i) {
    // The names of talosctl/cluster/disks/node-disks.h.
    copySparse(sample.images[i],
               cluster.stateFolder() + "/" + node + (i == 0 ? ".disk" : ".state"));
  }
  cluster.ok({"cluster", "node", "start", node});
}

size_t samplesToBoot() {
  return getenv("POWER_CUTS") == nullptr ? 0 : 3;
}

}  // namespace talos::cuts
