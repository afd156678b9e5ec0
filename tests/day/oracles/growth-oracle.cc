#include "tests/day/oracles/growth-oracle.h"

#include <algorithm>

namespace talos::day {

void GrowthOracle::add(const Sample& sample) {
  auto interval = static_cast<long>(sample.at / allowance.interval);
  Least now{sample.descriptors, sample.memory};
  auto& intervals = programs[{sample.node, sample.program, sample.pid}];
  auto [it, isNew] = intervals.emplace(interval, now);
  if (isNew) return;
  it->second.descriptors = std::min(it->second.descriptors, now.descriptors);
  it->second.memory = std::min(it->second.memory, now.memory);
}

// The first interval of a program is the one in which it has started, and fills its caches.
std::vector<GrowthOracle::Least> GrowthOracle::wholeIntervals(
    const std::map<long, Least>& all) const {
  std::vector<Least> whole;
  for (auto it = all.begin(); it != all.end(); ++it) {
    if (it != all.begin()) whole.push_back(it->second);
  }
  return whole;
}

size_t GrowthOracle::compared() const {
  return static_cast<size_t>(std::ranges::count_if(
      programs, [&](auto& each) { return wholeIntervals(each.second).size() >= 2; }));
}

std::string GrowthOracle::problem() const {
  std::string found;
  for (auto& [program, intervals] : programs) {
    auto whole = wholeIntervals(intervals);
    if (whole.size() < 2) continue;
    auto compare = [&](const char* of, unsigned Least::* field, unsigned allowed) {
      auto first = whole.front().*field, last = whole.back().*field;
      if (last <= first + allowed) return;
      auto& [node, name, pid] = program;
      found += (found.empty() ? "" : "; ") + name + " of " + node + " (pid " + std::to_string(pid) +
               ") had " + std::to_string(first) + " " + of + " and has " + std::to_string(last) +
               " after " + std::to_string(whole.size()) + " intervals";
    };
    compare("descriptors", &Least::descriptors, allowance.descriptors);
    compare("KiB of memory", &Least::memory, allowance.memory + whole.front().memory / 4);
  }
  return found;
}

}  // namespace talos::day
