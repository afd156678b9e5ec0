// Makes drawn changes (changes.h) on the nodes of local clusters, and judges what became of each.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tests/cluster/changes.h"
#include "tests/harness/cluster.h"

namespace talos::changes {

// Returns a setting of the environment.
std::string setting(const char* name, const char* usual);
unsigned countOf(const char* name, const char* usual);

// A change that is to be made. What is drawn for it depends on the seed and its number alone.
struct Task {
  unsigned number;
  bool harmful;
  const Kind* kind;
  std::optional<unsigned> cut;  // the write at which the power is cut; 0: soon after the call
};

// At each write to STATE of a change and of its way back, and once between them.
constexpr unsigned kCutsOfOne = 8;

// Returns so many changes for such nodes, all kinds in turn, in an order that the seed decides; and
// of the first harmful ones one more for each cut.
std::vector<Task> drawTasks(uint64_t seed, unsigned nodes, unsigned harmful, unsigned good,
                            unsigned cut);

// The outcome of a change.
struct Verdict {
  std::string outcome;  // "went back", "stays", "refused", "not applied" (by a cut), "WRONG: …"
  std::string reason;
  double seconds = 0;

  bool isWrong() const { return outcome.starts_with("WRONG"); }
};

// The changes that are still to be made, and the outcomes of the others. For several threads.
class Work {
 public:
  Work(uint64_t seed, std::vector<Task> all) : seed(seed), tasks(all.begin(), all.end()) {}

  const uint64_t seed;

  // Returns the next change for such a node.
  std::optional<Task> next(unsigned nodes);
  // Prints the verdict in one line.
  void report(const Task& task, const std::string& node, const Way& way, const std::string& patch,
              const Verdict& verdict);
  // Prints a line for each kind, and returns how many verdicts were wrong.
  unsigned conclude();
  size_t left();

 private:
  struct Row {
    unsigned all = 0;
    std::map<std::string, unsigned> outcomes;
    double slowest = 0;
  };
  std::mutex mutex;
  std::deque<Task> tasks;
  std::map<std::pair<bool, std::string>, Row> rows;
  unsigned wrong = 0;
};

class PowerCut;

// A node on which changes are made, one after the other.
class Victim {
 public:
  // `endpoint`: through which the node is called.
  Victim(Work& work, const harness::Cluster& cluster, std::string name, Place place,
         std::string endpoint)
      : work(work),
        cluster(cluster),
        name(std::move(name)),
        place(std::move(place)),
        endpoint(std::move(endpoint)) {}

  // Returns false if the node does not come up.
  bool begin();
  // Makes a change. Returns false if the node cannot be used any more.
  bool make(const Task& task);

 private:
  Work& work;
  const harness::Cluster& cluster;
  std::string name;
  Place place;
  std::string endpoint;
  std::string first, usual;  // the first config, and what the node does with it
  std::string before;        // the config before the change
  std::string ranBefore;     // the same, as the node ran it
  size_t seen = 0;           // of the console, before the change

  harness::Result call(std::vector<std::string> arguments, double deadline = 30) const;
  harness::Result status() const { return call({"status"}); }
  std::string config() const;
  std::string running() const;
  std::string console() const { return cluster.console(name); }
  std::string since() const;
  std::string duties() const;
  bool settles() const;
  bool isOnTrial() const;
  bool isQuiet(double seconds) const;
  bool restore();
  std::string firstFile() const;
  std::vector<std::string> command(const Change& change, const Way& way) const;
  Verdict judged(const Task& task, const Change& change, const Way& way, Draw& draw);
  Verdict ends(const Task& task, harness::Background& apply, const PowerCut* cut, bool isStaged);
  Verdict notOnTrial() const;
  Verdict afterTrial(const Task& task, const std::string& outcome) const;
  void checkReason(const Task& task, const Change& change, Verdict& verdict) const;
  void checkEffect(const Change& change, Verdict& verdict) const;
};

// Makes changes for such nodes, each time on the next victim, until none is left. Fails the test if
// a victim cannot be used.
void workOn(Work& work, std::vector<Victim>& victims, unsigned nodes);

}  // namespace talos::changes
