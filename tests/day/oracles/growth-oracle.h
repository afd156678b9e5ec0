// Judges whether the programs of nodes grow: descriptors and memory, from one interval of a day to
// later ones. Pure.
//
// Samples are taken when the cluster is well and nothing is done, and the least of an interval
// counts, so that a peak of work is no growth. A program that was restarted is another one.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace talos::day {

struct Sample {
  std::string node, program;
  int pid = 0;
  double at = 0;  // s
  unsigned descriptors = 0;
  unsigned memory = 0;  // KiB that are resident and not shared with files
};

class GrowthOracle {
 public:
  struct Allowance {
    double interval = 3600;      // s
    unsigned descriptors = 16;   // more than in the first whole interval
    unsigned memory = 8 * 1024;  // KiB, and a quarter of the first
  };
  explicit GrowthOracle(Allowance allowance) : allowance(allowance) {}

  void add(const Sample& sample);
  // Returns the programs that have grown by more than the allowance from their first whole interval
  // to their last one.
  std::string problem() const;
  // Returns the number of programs that lived through two whole intervals or more.
  size_t compared() const;

 private:
  struct Least {
    unsigned descriptors, memory;
  };
  using Program = std::tuple<std::string, std::string, int>;
  Allowance allowance;
  std::map<Program, std::map<long, Least>> programs;  // by the number of the interval

  std::vector<Least> wholeIntervals(const std::map<long, Least>& all) const;
};

}  // namespace talos::day
