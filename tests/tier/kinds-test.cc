#include <gtest/gtest.h>
#include <stdlib.h>
#include <map>
#include <chrono>
#include "tests/tier/explorer.h"
namespace talos::tier {
TEST(Kinds, Count) {
  Explorer explorer;
  unsigned from = atoi(getenv("FROM") ?: "1"), count = atoi(getenv("COUNT") ?: "1");
  std::map<std::string, std::pair<unsigned, std::pair<unsigned, std::string>>> kinds;
  Found all;
  auto begin = std::chrono::steady_clock::now();
  for (unsigned seed = from; seed < from + count; ++seed) {
    auto o = explorer.play(Schedule::of(seed));
    all.virtualSeconds += o.time / kj::SECONDS; all.events += o.events;
    for (size_t i = 0; i < kProbes; ++i) all.probes[i] += o.probes[i] > 0;
    all.states.merge(o.states);
    if (o.violation.empty()) continue;
    std::string kind;
    for (auto c : o.violation.substr(0, o.violation.find(':'))) if (c < '0' || c > '9') kind += c;
    auto& k = kinds[kind];
    if (k.first++ == 0) k.second = {seed, o.violation};
  }
  printf("%u in %.1f s, virtual %.1f each, states %zu\n", count, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), double(all.virtualSeconds)/count, all.states.size());
  for (auto& [k, v] : kinds) printf("%u x seed %u: %s\n", v.first, v.second.first, v.second.second.substr(0, 300).c_str());
  for (size_t i = 0; i < kProbes; ++i) printf("  %-20s %llu\n", nameOf(Probe(i)), (unsigned long long)all.probes[i]);
}
}
