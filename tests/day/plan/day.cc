#include "tests/day/plan/day.h"

#include <algorithm>
#include <optional>

#include "tests/harness/draw.h"

namespace talos::day {
namespace {

using harness::Draw;

// Numbers of the sequences of a seed; those of bouts come after them.
enum : uint64_t { kOfWeights = 0, kOfKinds = 1, kOfRounds = 2, kOfBouts = 100 };

constexpr unsigned kHour = 60;            // minutes
constexpr unsigned kMostOperations = 3;   // of a bout
constexpr unsigned kLatestBegin = 8'000;  // ms in its bout
constexpr unsigned kSettling = 2;         // s from the end of the operations until all is well
constexpr unsigned kAttempts = 20;        // to find an operation that agrees with the others

bool isPossible(const KindRow& row, const std::set<Kind>& lacking) {
  return !lacking.contains(row.kind);
}

class Planner {
 public:
  Planner(Day& day, const std::set<Kind>& lacking)
      : day(day), kinds(day.seed, kOfKinds), rounds(day.seed, kOfRounds) {
    drawWeights(lacking);
  }

  void plan() {
    unsigned clock = 0;
    while (clock < day.minutes * 60) {
      auto& round = day.rounds.emplace_back();
      auto count = rounds.number(2, 4);
      for (unsigned i = 0; i < count && clock < day.minutes * 60; ++i) {
        round.push_back(i + 1 == count ? drawLiveness() : drawBout());
        clock += costOf(round.back());
      }
    }
  }

 private:
  Day& day;
  Draw kinds, rounds;
  std::vector<const KindRow*> once;      // still to be done once
  std::vector<const KindRow*> weighted;  // each as often as its weight
  unsigned sizes[kMostOperations] = {};  // weights of one to three operations
  unsigned bouts = 0, numbers = 0;

  void drawWeights(const std::set<Kind>& lacking) {
    Draw draw(day.seed, kOfWeights);
    for (auto& size : sizes) size = draw.number(1, 5);
    std::vector<const KindRow*> first;
    for (auto& row : allKinds()) {
      auto weight = draw.chance(25) ? 0 : draw.number(1, 6);
      bool isRequired = day.minutes >= kHour && row.state != nullptr;
      if (isRequired && weight == 0) weight = 1;
      if (!isPossible(row, lacking)) weight = 0;
      day.weights[row.name] = weight;
      if (weight > 0) (isRequired ? first : once).push_back(&row);
      weighted.insert(weighted.end(), weight, &row);
    }
    // Required kinds come first, so that a day that is slower than planned has them.
    kinds.shuffle(once);
    kinds.shuffle(first);
    once.insert(once.begin(), first.begin(), first.end());
    if (weighted.empty()) weighted.push_back(&rowOf(Kind::kKill));
  }

  const KindRow& drawKind(const std::vector<const KindRow*>& from) { return *kinds.oneOf(from); }

  unsigned drawSize(Draw& draw) {
    unsigned all = 0;
    for (auto size : sizes) all += size;
    auto at = draw.number(1, all);
    unsigned count = 1;
    for (; count < kMostOperations && at > sizes[count - 1]; ++count) at -= sizes[count - 1];
    return count;
  }

  // Short and long times are as likely.
  static unsigned drawTime(Draw& draw, unsigned least, unsigned most) {
    if (least >= most) return least;
    auto middle = std::min(most, least * 4);
    return draw.chance(50) ? draw.number(least, middle) : draw.number(middle, most);
  }

  Operation drawOperation(Draw& draw, const KindRow& row, std::optional<unsigned> at = {}) {
    Operation it{.kind = row.kind};
    bool onWorker = (row.on & kOnWorker) != 0, onOthers = (row.on & kOnControlPlanes) != 0;
    it.node = at ? *at : draw.number(onOthers ? 0 : kWorker, onWorker ? kWorker : kWorker - 1);
    if (row.kind == Kind::kCutLink) it.peer = (it.node + draw.number(1, kNodes - 1)) % kNodes;
    auto programs = programsOn(it.node);
    if (row.scope == Scope::kProgram) {
      it.program = programs[draw.number(0, static_cast<unsigned>(programs.size() - 1))];
    }
    it.after = draw.chance(40) ? 0 : draw.number(0, kLatestBegin);
    it.lasts = row.most > 0 ? drawTime(draw, row.least, row.most) : 0;
    it.salt = draw.number(1, 1'000'000);
    return it;
  }

  bool add(Bout& bout, Operation it) {
    bool fits = std::ranges::all_of(bout.operations, [&](auto& o) { return agree(it, o); });
    if (fits) bout.operations.push_back(std::move(it));
    return fits;
  }

  Bout finished(Bout bout) {
    std::ranges::stable_sort(bout.operations, {}, &Operation::after);
    for (auto& it : bout.operations) it.number = ++numbers;
    return bout;
  }

  Bout drawBout() {
    Draw draw(day.seed, kOfBouts + bouts++);
    Bout bout;
    auto count = drawSize(draw);
    for (unsigned tries = 0; bout.operations.size() < count && tries < kAttempts; ++tries) {
      bool isFirst = !once.empty();
      auto& row = isFirst ? *once.front() : drawKind(weighted);
      if (add(bout, drawOperation(draw, row)) && isFirst) once.erase(once.begin());
    }
    return finished(std::move(bout));
  }

  // The control-plane node outside of the quorum has a fault that stays.
  Bout drawLiveness() {
    Draw draw(day.seed, kOfBouts + bouts++);
    std::vector<const KindRow*> staying;
    for (auto row : weighted) {
      if (row->stays) staying.push_back(row);
    }
    if (staying.empty()) staying.push_back(&rowOf(Kind::kPowerCut));
    auto outside = draw.number(0, kControlPlanes - 1);
    Bout bout;
    for (unsigned node = 0; node < kControlPlanes; ++node) {
      if (node != outside) bout.quorum.push_back(node);
    }
    add(bout, drawOperation(draw, drawKind(staying), outside));
    auto count = drawSize(draw);
    for (unsigned tries = 0; bout.operations.size() < count && tries < kAttempts; ++tries) {
      add(bout, drawOperation(draw, drawKind(staying)));
    }
    // A link that is cut stays with its node, so within the quorum none is.
    std::erase_if(bout.operations,
                  [&](auto& it) { return it.peer && *it.peer != outside && it.node != outside; });
    return finished(std::move(bout));
  }
};

template <typename Keep>
Day filtered(const Day& day, Keep&& keep) {
  auto result = day;
  result.rounds.clear();
  for (auto& round : day.rounds) {
    Round left;
    for (auto& bout : round) {
      auto kept = bout;
      std::erase_if(kept.operations, [&](auto& it) { return !keep(it); });
      if (!kept.operations.empty()) left.push_back(std::move(kept));
    }
    if (!left.empty()) result.rounds.push_back(std::move(left));
  }
  return result;
}

}  // namespace

std::vector<Operation> Day::operations() const {
  std::vector<Operation> all;
  for (auto& round : rounds) {
    for (auto& bout : round) {
      all.insert(all.end(), bout.operations.begin(), bout.operations.end());
    }
  }
  return all;
}

Day drawDay(uint64_t seed, unsigned minutes, std::vector<Workload> workloads,
            const std::set<Kind>& lacking) {
  Day day{.seed = seed, .minutes = minutes, .workloads = std::move(workloads)};
  Planner(day, lacking).plan();
  return day;
}

unsigned costOf(const Bout& bout) {
  unsigned most = 0;
  for (auto& it : bout.operations) {
    most = std::max(most, (it.after + it.lasts) / 1000 + rowOf(it.kind).cost);
  }
  return most + kSettling;
}

Day withOnly(const Day& day, const std::set<unsigned>& numbers) {
  return filtered(day, [&](auto& it) { return numbers.contains(it.number); });
}

Day upTo(const Day& day, unsigned bout) {
  unsigned seen = 0;
  std::set<unsigned> numbers;
  for (auto& round : day.rounds) {
    for (auto& each : round) {
      if (seen++ > bout) continue;
      for (auto& it : each.operations) numbers.insert(it.number);
    }
  }
  return withOnly(day, numbers);
}

}  // namespace talos::day
