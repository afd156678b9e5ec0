// A recording of a node of a local cluster, and power cuts at its events.
#pragma once

#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/cuts/replay.h"
#include "tests/cuts/volatile-cluster.h"

namespace talos::cuts {

// A recording that starts and stops with the object. Throws if the disk server refuses it. When the
// test has failed, the log is kept beside the test program and its path printed: the failures name
// the events and the seeds.
class Recording {
 public:
  Recording(const VolatileCluster& cluster, const std::string& node);
  ~Recording();
  Recording(const Recording&) = delete;

  // Returns the number of events so far.
  size_t position();
  // Throws if the recording had ended before, at its limit or because the disk was full: then it is
  // incomplete.
  void stop();
  // Returns why the recording is incomplete; empty if it is complete.
  std::string problem();
  // Returns true until the recording is stopped, or the run of the node ends.
  bool goesOn();
  const std::string& log() const { return file; }

 private:
  const VolatileCluster& cluster;
  Scratch scratch;
  std::string file;
};

// The events during an operation, and whether the operation had been answered as done at the end.
struct Window {
  size_t begin, end;
  bool answered;
};

struct CutAt {
  size_t window, event;
  Replay::When when;
  uint64_t seed;
};

// Number of cuts that finds mistakes at only a few of the writes; fewer cuts may miss them.
constexpr unsigned kMany = 100;

// Returns the number of cuts to make: $POWER_CUTS, or `few` if it is not set.
unsigned cutsToMake(unsigned few);

// Chooses `count` cuts, in the order of the events: half of them at the first and last writes of
// the windows, the others at any of their writes; half of them lose all unflushed writes. Adds one
// cut after each answered window, where the answered change must last.
std::vector<CutAt> chooseCuts(const Replay& replay, const std::vector<Window>& windows,
                              unsigned count);

// Counts the outcomes of cuts and prints them to the log of the test.
class Outcomes {
 public:
  explicit Outcomes(std::string operation) : operation(std::move(operation)) {}
  void add(const std::string& kind, const disk::Cut& cut);
  void print(const Replay& replay) const;
  unsigned of(const std::string& kind) const;
  unsigned all() const;

 private:
  std::string operation;
  std::map<std::string, unsigned> kinds;
  unsigned torn = 0, partly = 0;
};

// The images after one of the cuts, to boot a machine with.
struct Sample {
  CutAt at;
  std::string kind;
  std::vector<std::string> images;
};

// Makes each cut: `look` returns the kind of the images, or throws. A throw fails the test, with
// the cut named, and the next cut is made. Returns `samples` samples, in `folder`.
std::vector<Sample> replayCuts(Replay& replay, const std::vector<CutAt>& cuts, Outcomes& outcomes,
                               const std::function<std::string(const CutAt& cut)>& look,
                               size_t samples = 0, const std::string& folder = "");

// Cuts the node's power, gives it these disks and starts it.
void startWith(const VolatileCluster& cluster, const std::string& node, const Sample& sample);

// Returns the number of samples to boot machines with: a few if $POWER_CUTS is set, otherwise 0.
size_t samplesToBoot();

}  // namespace talos::cuts
