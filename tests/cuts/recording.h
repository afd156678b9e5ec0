// A recording of a node of a local cluster, and the power cuts that are made of it.
#pragma once

#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/cuts/replay.h"
#include "tests/cuts/volatile-cluster.h"

namespace talos::cuts {

// Starts it; stops it with the object. Throws when that is refused. When the test has failed, the
// log is kept beside the test program and its path printed: the failures name the events and the
// seeds.
class Recording {
 public:
  Recording(const VolatileCluster& cluster, const std::string& node);
  ~Recording();
  Recording(const Recording&) = delete;

  // The number of events so far.
  size_t position();
  // Throws when it had ended before, at its limit or because there was no more room: it is not
  // whole then.
  void stop();
  // Why it is not whole; empty when it is.
  std::string problem();
  // Until it is stopped, or the run of the node ends.
  bool goesOn();
  const std::string& log() const { return file; }

 private:
  const VolatileCluster& cluster;
  Scratch scratch;
  std::string file;
};

// While an operation was carried out: its events, and whether it had been answered as done at the
// end.
struct Window {
  size_t begin, end;
  bool answered;
};

struct CutAt {
  size_t window, event;
  Replay::When when;
  uint64_t seed;
};

// So many cuts find what only a few of the writes decide; fewer may miss it.
constexpr unsigned kMany = 100;

// How many cuts to make: $POWER_CUTS, else `few`.
unsigned cutsToMake(unsigned few);

// So many, in the order of the events: half of them at the first and last writes of the windows,
// the others at any of their writes; half of them lose all that was not flushed. And one behind
// each window that was answered, where what was answered must last.
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

// The images of one of them, for a machine to be booted with.
struct Sample {
  CutAt at;
  std::string kind;
  std::vector<std::string> images;
};

// Each cut: `look` says of which kind the images are, or throws. A throw fails the test, with the
// cut that it was, and the next one is made. Returns so many samples, in `folder`.
std::vector<Sample> replayCuts(Replay& replay, const std::vector<CutAt>& cuts, Outcomes& outcomes,
                               const std::function<std::string(const CutAt& cut)>& look,
                               size_t samples = 0, const std::string& folder = "");

// Cuts the node's power, gives it these disks and starts it.
void startWith(const VolatileCluster& cluster, const std::string& node, const Sample& sample);

// Some machines boot from them where $POWER_CUTS asks for many.
size_t samplesToBoot();

}  // namespace talos::cuts
