#include "tests/day/plan/shrink.h"

#include <algorithm>

namespace talos::day {
namespace {

// Zeller's and Hildebrandt's delta debugging: parts alone, then the rest without each part, then
// smaller parts.
class Bisection {
 public:
  Bisection(const Day& failing, unsigned replays, const std::function<bool(const Day&)>& fails)
      : failing(failing), left(replays), fails(fails) {
    for (auto& it : failing.operations()) numbers.push_back(it.number);
  }

  Shrunk run() {
    Shrunk result{.day = failing};
    result.repeats = stillFails(numbers);
    if (result.repeats) {
      for (size_t parts = 2; numbers.size() > 1 && left > 0;) {
        if (reduce(parts)) continue;
        if (parts >= numbers.size()) {
          result.finished = left > 0;
          break;
        }
        parts = std::min(parts * 2, numbers.size());
      }
      result.finished |= numbers.size() == 1;
      result.day = of(numbers);
    }
    result.replays = made;
    return result;
  }

 private:
  using Numbers = std::vector<unsigned>;
  const Day& failing;
  unsigned left, made = 0;
  const std::function<bool(const Day&)>& fails;
  Numbers numbers;

  Day of(const Numbers& some) const {
    return withOnly(failing, std::set<unsigned>(some.begin(), some.end()));
  }
  bool stillFails(const Numbers& some) {
    if (left == 0) return false;
    --left;
    ++made;
    return fails(of(some));
  }
  // Returns true if fewer operations fail; `parts` is then the number of parts to try next.
  bool reduce(size_t& parts) {
    auto bounds = [&](size_t part) {
      return numbers.begin() + static_cast<ptrdiff_t>(numbers.size() * part / parts);
    };
    for (size_t part = 0; part < parts; ++part) {
      Numbers alone(bounds(part), bounds(part + 1));
      if (!stillFails(alone)) continue;
      numbers = std::move(alone);
      parts = 2;
      return true;
    }
    // With two parts, the rest without one is the other.
    for (size_t part = 0; parts > 2 && part < parts; ++part) {
      Numbers rest(numbers.begin(), bounds(part));
      rest.insert(rest.end(), bounds(part + 1), numbers.end());
      if (!stillFails(rest)) continue;
      numbers = std::move(rest);
      parts = std::max<size_t>(parts - 1, 2);
      return true;
    }
    return false;
  }
};

}  // namespace

Shrunk shrink(const Day& failing, unsigned replays, const std::function<bool(const Day&)>& fails) {
  return Bisection(failing, replays, fails).run();
}

}  // namespace talos::day
