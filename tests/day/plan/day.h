// The plan of a random day, as a pure function of its seed.
//
// A day consists of rounds, a round of bouts. In a bout one to three operations are done at once,
// and then everything must become well. The last bout of a round tests liveness: when its
// operations have begun, those on the nodes of a quorum end, all others stay, and the quorum must
// become well without the rest. The seed also draws the weights: how often each kind is chosen,
// and which kinds are left out.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/day/plan/operation.h"

namespace talos::day {

struct Bout {
  std::vector<Operation> operations;  // by the time at which they begin
  std::vector<unsigned> quorum;       // control-plane nodes; empty: no test of liveness

  bool operator==(const Bout&) const = default;
};

using Round = std::vector<Bout>;

// A task that runs beside the operations of a day, or judges it.
struct Workload {
  std::string name;
  std::map<std::string, unsigned> settings;

  bool operator==(const Workload&) const = default;
};

struct Day {
  uint64_t seed = 0;
  unsigned minutes = 60;
  std::vector<Workload> workloads;
  std::map<std::string, unsigned> weights;  // by the name of a kind; 0: left out
  std::vector<Round> rounds;

  bool operator==(const Day&) const = default;
  std::vector<Operation> operations() const;
};

// Draws weights and rounds for a day with these workloads. Kinds in `lacking` are left out, because
// the host cannot do them. A day of an hour or more has each kind that visits a state
// (KindRow::state), and a shorter day begins with each chosen kind once before one is repeated.
Day drawDay(uint64_t seed, unsigned minutes, std::vector<Workload> workloads,
            const std::set<Kind>& lacking);

// Returns the time in seconds that the day plans for a bout.
unsigned costOf(const Bout& bout);

// Returns the day with only the operations of these numbers, without bouts that become empty.
Day withOnly(const Day& day, const std::set<unsigned>& numbers);
// Returns the day up to and including this bout, counted from 0 in the whole day.
Day upTo(const Day& day, unsigned bout);

}  // namespace talos::day
