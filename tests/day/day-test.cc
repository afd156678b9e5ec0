// A random day of a cluster (docs/evidence/random-days.md).
//
//   SEED         seed of the day (default: a random one, which is printed)
//   DAY          a text of a day to replay, or of workloads for a day that is drawn
//   DAY_MINUTES  how long it is (default: what the text says)
//   DAY_SHRINKS  how many replays may shrink a day that failed (default: 6)
//   DAY_FOLDER   where the plan, the history and the shrunk day are written (default: /tmp)
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <thread>

#include "tests/day/operations.h"
#include "tests/day/plan/run-day.h"
#include "tests/day/plan/shrink.h"
#include "tests/day/workloads.h"

namespace talos::day {
namespace {

using Clock = std::chrono::steady_clock;

std::string setting(const char* name, const std::string& usual) {
  auto given = getenv(name);
  return given == nullptr || *given == '\0' ? usual : given;
}

std::vector<std::string> statesOfKinds() {
  std::vector<std::string> all;
  for (auto& row : allKinds()) {
    if (row.state != nullptr) all.emplace_back(row.state);
  }
  return all;
}

// Writes to stderr and to a file of the day's folder.
class Journal {
 public:
  explicit Journal(const std::string& path) : out(path) {}

  void line(const std::string& text) {
    char at[32];
    auto seconds = std::chrono::duration<double>(Clock::now() - began).count();
    snprintf(at, sizeof at, "%7.1f  ", seconds);
    out << at << text << std::endl;
    fprintf(stderr, "%s%s\n", at, text.c_str());
  }

 private:
  Clock::time_point began = Clock::now();
  std::ofstream out;
};

class ClusterSite : public Site {
 public:
  ClusterSite(const Day& day, DayCluster& nodes, Journal& journal)
      : journal(journal),
        context{.nodes = nodes, .seed = day.seed},
        workloads(makeWorkloads(day, context)),
        states(statesOfKinds()) {
    for (auto& round : day.rounds) {
      for (auto& bout : round) {
        if (bout.operations.size() == 1) alone.insert(bout.operations[0].number);
      }
    }
  }

  // Returns a problem of the new cluster.
  std::string begin() {
    for (auto& each : workloads) {
      if (auto problem = each->setup(); !problem.empty()) return problem;
    }
    for (auto& each : workloads) each->start();
    operations =
        std::make_unique<Operations>(context.nodes, context.clients, states, context.secrets);
    began = Clock::now();
    return "";
  }

  double now() override { return std::chrono::duration<double>(Clock::now() - began).count(); }
  void sleepUntil(double at) override {
    std::this_thread::sleep_for(std::chrono::duration<double>(at - now()));
  }
  void begin(const Operation& operation) override {
    operations->begin(operation, alone.contains(operation.number));
  }
  std::string end(const Operation& operation) override { return operations->end(operation); }
  std::string converge(const std::vector<unsigned>& quorum) override {
    for (auto& each : workloads) {
      if (auto problem = each->converge(quorum); !problem.empty()) return problem;
    }
    return "";
  }
  std::string check(bool isEndOfRound) override {
    for (auto& each : workloads) {
      if (auto problem = each->check(now(), isEndOfRound); !problem.empty()) return problem;
    }
    return testing::Test::HasFailure() ? "the harness reports a failure" : "";
  }
  void note(const std::string& line) override { journal.line(line); }

  void summarize() {
    for (auto& each : workloads) {
      if (auto line = each->summary(); !line.empty()) journal.line(line);
    }
    journal.line("states: " + states.text());
  }
  const VisitedStates& visited() const { return states; }

 private:
  Journal& journal;
  DayContext context;
  std::vector<std::unique_ptr<WorkloadRun>> workloads;
  VisitedStates states;
  std::set<unsigned> alone;  // operations that are the only one of their bout
  std::unique_ptr<Operations> operations;
  Clock::time_point began = Clock::now();
};

struct Setup {
  Day day;  // of the text
  bool isReplay = false;
  std::string folder;
};

Setup readSetup() {
  auto file = setting("DAY", DEFAULT_DAY);
  auto text = harness::slurp(file);
  KJ_REQUIRE(!text.empty(), "the text of the day cannot be read", file.c_str());
  Setup setup{.day = parseDay(text, file, knownWorkloads()),
              .folder = setting("DAY_FOLDER", "/tmp")};
  setup.isReplay = !setup.day.rounds.empty();
  auto random = std::to_string(std::random_device{}() % 1'000'000);
  if (!setup.isReplay) {
    setup.day.seed = std::stoull(setting("SEED", random));
    setup.day.minutes =
        unsigned(std::stoul(setting("DAY_MINUTES", std::to_string(setup.day.minutes))));
  }
  setup.folder += "/day-" + std::to_string(setup.day.seed);
  return setup;
}

bool hasUpgrade(const Day& day) {
  for (auto& it : day.operations()) {
    if (it.kind == Kind::kUpgrade || it.kind == Kind::kBadImage) return true;
  }
  return false;
}

// Runs the day. Returns its outcome; `day` becomes the drawn one.
Outcome runOn(DayCluster& nodes, const Setup& setup, Day& day, Journal& journal) {
  if (!setup.isReplay) {
    day = drawDay(day.seed, day.minutes, day.workloads, nodes.lacking);
  }
  for (auto& reason : nodes.reasons) journal.line("left out: " + reason);
  auto text = textOf(day);
  std::ofstream(setup.folder + ".plan") << text;
  fprintf(stderr, "%s", text.c_str());
  for (auto& it : day.operations()) {
    if (!nodes.lacking.contains(it.kind)) continue;
    return {.problem = "this host cannot do: " + textOf(it)};
  }
  if (hasUpgrade(day)) nodes.makeImages(unsigned(day.seed));
  ClusterSite site(day, nodes, journal);
  Outcome outcome{.problem = site.begin()};
  if (!outcome.problem.empty()) return outcome;
  auto endless = std::numeric_limits<double>::max();
  outcome = runDay(day, site, setup.isReplay ? endless : day.minutes * 60.0);
  site.summarize();
  if (outcome.problem.empty() && !setup.isReplay) {
    outcome.problem = site.visited().problem(day.minutes);
  }
  return outcome;
}

// Replays a day in another process, in which no earlier failure counts.
bool failsAgain(const Day& day, const std::string& folder) {
  auto file = folder + ".tried";
  std::ofstream(file) << textOf(day);
  auto seconds = 3600.0;
  for (auto& round : day.rounds) {
    for (auto& bout : round) seconds += 3 * costOf(bout);
  }
  auto result = harness::run({"/proc/self/exe", "--gtest_filter=RandomDay.*"}, seconds,
                             {"DAY=" + file, "DAY_SHRINKS=0", "DAY_FOLDER=" + folder + "-tried"});
  return result.status != 0;
}

void shrinkDay(const Day& day, const Outcome& outcome, const std::string& folder,
               Journal& journal) {
  auto replays = unsigned(std::stoul(setting("DAY_SHRINKS", "6")));
  if (replays == 0 || !outcome.failed) return;
  std::filesystem::create_directories(folder + "-tried");
  auto failing = upTo(day, *outcome.failed);
  auto shrunk = shrink(failing, replays, [&](const Day& tried) {
    bool fails = failsAgain(tried, folder);
    journal.line("replay of " + std::to_string(tried.operations().size()) +
                 " operations: " + (fails ? "fails" : "passes"));
    return fails;
  });
  auto file = folder + ".shrunk";
  std::ofstream(file) << textOf(shrunk.day);
  journal.line(shrunk.repeats ? "shrunk to " + std::to_string(shrunk.day.operations().size()) +
                                    " operations: DAY=" + file
                              : "the replay of the whole day passes: DAY=" + file);
}

}  // namespace

// Catches: an answered write that is lost or read out of order, two holders of the shared address,
// a node that does not become well by itself, a quorum that needs the rest, a program that grows, a
// secret in a log.
TEST(RandomDay, IsWithstood) {
  auto setup = readSetup();
  auto day = setup.day;
  Journal journal(setup.folder + ".history");
  journal.line("seed " + std::to_string(day.seed) + ", history in " + setup.folder + ".history");
  Outcome outcome;
  {
    DayCluster nodes;
    outcome = runOn(nodes, setup, day, journal);
    if (!outcome.problem.empty()) std::ofstream(setup.folder + ".nodes") << nodes.said();
  }
  journal.line(std::to_string(outcome.bouts) + " bouts with " + std::to_string(outcome.operations) +
               " operations: " + (outcome.problem.empty() ? "passed" : outcome.problem));
  if (outcome.problem.empty()) return;
  ADD_FAILURE() << "seed " << day.seed << ": " << outcome.problem
                << "\nreplay: DAY=" << setup.folder << ".plan; history: " << setup.folder
                << ".history";
  shrinkDay(day, outcome, setup.folder, journal);
}

}  // namespace talos::day
