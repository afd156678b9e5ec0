// Draws from a seed, for tests that make random faults or changes.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace talos::harness {

// A sequence of draws. Equal seeds and numbers draw the same, on every machine.
class Draw {
 public:
  Draw(uint64_t seed, uint64_t number);

  unsigned number(unsigned least, unsigned most);
  bool chance(unsigned percent) { return number(1, 100) <= percent; }
  template <typename T, size_t count>
  T oneOf(const T (&choices)[count]) {
    return choices[number(0, count - 1)];
  }
  template <typename T>
  const T& oneOf(const std::vector<T>& choices) {
    return choices[number(0, static_cast<unsigned>(choices.size() - 1))];
  }
  template <typename T>
  void shuffle(std::vector<T>& items) {
    for (size_t i = items.size(); i > 1; --i) {
      std::swap(items[i - 1], items[number(0, static_cast<unsigned>(i - 1))]);
    }
  }
  // Returns "PREFIX.17" of a network that leads nowhere.
  std::string addressIn(const std::string& prefix, unsigned least = 60, unsigned most = 250);
  std::string word();

 private:
  std::mt19937_64 random;
};

}  // namespace talos::harness
