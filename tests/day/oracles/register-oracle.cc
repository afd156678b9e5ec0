#include "tests/day/oracles/register-oracle.h"

#include <algorithm>
#include <tuple>

namespace talos::day {
namespace {

std::string shown(const std::string& value) {
  return value.empty() ? "nothing" : "\"" + value + "\"";
}

std::string shown(const Call& call) {
  std::string text = "client " + std::to_string(call.client);
  switch (call.what) {
    case Call::What::kRead:
      text += " read " + shown(call.value);
      break;
    case Call::What::kWrite:
      text += " wrote " + shown(call.value);
      break;
    case Call::What::kSwap:
      text += " replaced " + shown(call.expected) + " by " + shown(call.value);
      break;
  }
  return text + " from " + std::to_string(call.begin) + " to " + std::to_string(call.end);
}

// Returns the value that the call has observed.
const std::string* observedBy(const Call& call) {
  if (call.what == Call::What::kRead) return &call.value;
  return call.what == Call::What::kSwap ? &call.expected : nullptr;
}

// Searches an order call by call in time (Wing and Gong, with Lowe's just-in-time rule): whenever a
// call returns, it is put into the order at the latest, after any of the calls that overlap it.
class OrderSearch {
 public:
  OrderSearch(const std::string& key, const std::vector<Call>& all) : key(key) { select(all); }

  std::string run() {
    if (!problem.empty()) return problem;
    std::vector<std::tuple<int64_t, bool, size_t>> events;  // calls before returns
    for (size_t i = 0; i < calls.size(); ++i) {
      events.emplace_back(calls[i].begin, false, i);
      events.emplace_back(calls[i].end, true, i);
    }
    std::ranges::sort(events);
    std::set<Configuration> possible = {{"", {}}};
    std::set<size_t> pending;
    for (auto& [at, returns, call] : events) {
      if (!returns) {
        pending.insert(call);
        continue;
      }
      auto next = afterReturn(possible, pending, call);
      if (next.empty()) return explained(possible, call);
      possible = std::move(next);
      pending.erase(call);
    }
    return "";
  }

 private:
  // The value, and the pending calls that are in the order already.
  using Configuration = std::pair<std::string, std::set<size_t>>;

  const std::string& key;
  std::vector<Call> calls;
  std::string problem;

  // Leaves out calls without an effect. A call without an answer counts if its value was observed,
  // and has taken effect at the latest when the first call that observed it returned; otherwise an
  // order with it is also one without it.
  void select(const std::vector<Call>& all) {
    std::map<std::string, const Call*> writes;
    std::map<std::string, int64_t> firstObserved;
    for (auto& call : all) {
      if (call.what == Call::What::kRead || call.outcome == Call::Outcome::kRefused) continue;
      if (!writes.emplace(call.value, &call).second) {
        problem = key + ": " + shown(call.value) + " was written twice, so reads prove nothing";
      }
    }
    for (auto& call : all) {
      auto value = observedBy(call);
      if (value == nullptr || value->empty() || call.outcome != Call::Outcome::kDone) continue;
      auto write = writes.find(*value);
      if (write == writes.end()) {
        problem = key + ": " + shown(call) + ", which no client has written";
      } else if (call.end < write->second->begin) {
        problem = key + ": " + shown(call) + ", before it was written";
      }
      auto [first, isNew] = firstObserved.emplace(*value, call.end);
      if (!isNew) first->second = std::min(first->second, call.end);
    }
    for (auto& call : all) {
      if (call.outcome == Call::Outcome::kDone) calls.push_back(call);
      if (call.outcome != Call::Outcome::kUnknown || call.what == Call::What::kRead) continue;
      auto first = firstObserved.find(call.value);
      if (first == firstObserved.end()) continue;
      calls.push_back(call);
      calls.back().end = std::max(call.begin, first->second);
    }
  }

  // Returns false if the call's answer does not fit the value.
  static bool apply(const Call& call, std::string& value) {
    if (call.what == Call::What::kRead) return value == call.value;
    if (call.what == Call::What::kSwap && value != call.expected) return false;
    value = call.value;
    return true;
  }

  // Returns the configurations in which `call` is in the order, and forgets it.
  std::set<Configuration> afterReturn(const std::set<Configuration>& possible,
                                      const std::set<size_t>& pending, size_t call) const {
    std::set<Configuration> result;
    auto seen = possible;
    std::vector<Configuration> open(possible.begin(), possible.end());
    while (!open.empty()) {
      auto now = std::move(open.back());
      open.pop_back();
      if (now.second.erase(call) > 0) {
        result.insert(std::move(now));
        continue;
      }
      for (auto each : pending) {
        auto next = now;
        if (!next.second.insert(each).second || !apply(calls[each], next.first)) continue;
        if (seen.insert(next).second) open.push_back(std::move(next));
      }
    }
    return result;
  }

  std::string explained(const std::set<Configuration>& possible, size_t call) const {
    std::string values;
    for (auto& [value, done] : possible) {
      auto text = shown(value);
      if (values.find(text) == std::string::npos) values += (values.empty() ? "" : " or ") + text;
    }
    return key + ": " + shown(calls[call]) + ", but the value before it was " + values;
  }
};

bool isWrite(const Call& call) {
  return call.what != Call::What::kRead;
}

// Compares what a read says about its value with the write of that revision.
std::string valuesProblem(const std::string& key, const std::vector<Call>& calls) {
  std::map<int64_t, const Call*> writes;
  for (auto& call : calls) {
    if (isWrite(call) && call.outcome == Call::Outcome::kDone && call.revision > 0) {
      writes[call.revision] = &call;
    }
  }
  for (auto& call : calls) {
    if (isWrite(call) || call.outcome != Call::Outcome::kDone || call.modified == 0) continue;
    auto write = writes.find(call.modified);
    if (write != writes.end() && write->second->value != call.value) {
      return key + ": " + shown(call) + " of revision " + std::to_string(call.modified) +
             ", when " + shown(*write->second);
    }
    // A newer answered write at or before the revision of the answer is lost.
    auto newer = writes.upper_bound(call.modified);
    if (newer != writes.end() && call.revision > 0 && newer->first <= call.revision) {
      return key + ": " + shown(call) + " at revision " + std::to_string(call.revision) +
             ", without the write of revision " + std::to_string(newer->first) + ": " +
             shown(*newer->second);
    }
  }
  return "";
}

}  // namespace

std::string orderProblem(const std::string& key, const std::vector<Call>& calls) {
  return OrderSearch(key, calls).run();
}

std::string revisionProblem(const History& history) {
  std::vector<std::pair<std::string, const Call*>> byBegin;
  std::map<int64_t, std::string> writers;
  for (auto& [key, calls] : history) {
    for (auto& call : calls) {
      if (call.outcome != Call::Outcome::kDone || call.revision == 0) continue;
      byBegin.emplace_back(key, &call);
      if (!isWrite(call)) continue;
      auto [other, isNew] = writers.emplace(call.revision, key + ": " + shown(call));
      if (!isNew) {
        return "revision " + std::to_string(call.revision) + " was given twice: " + other->second +
               ", and " + key + ": " + shown(call);
      }
    }
    if (auto problem = valuesProblem(key, calls); !problem.empty()) return problem;
  }
  auto byEnd = byBegin;
  std::ranges::stable_sort(byBegin, {}, [](auto& each) { return each.second->begin; });
  std::ranges::stable_sort(byEnd, {}, [](auto& each) { return each.second->end; });
  const std::pair<std::string, const Call*>* newest = nullptr;
  auto ended = byEnd.begin();
  for (auto& each : byBegin) {
    auto& call = *each.second;
    for (; ended != byEnd.end() && ended->second->end < call.begin; ++ended) {
      if (newest == nullptr || ended->second->revision > newest->second->revision) newest = &*ended;
    }
    if (newest == nullptr) continue;
    auto least = newest->second->revision + (isWrite(call) ? 1 : 0);
    if (call.revision >= least) continue;
    return each.first + ": " + shown(call) + " at revision " + std::to_string(call.revision) +
           ", after revision " + std::to_string(newest->second->revision) +
           " was answered: " + newest->first + ": " + shown(*newest->second);
  }
  return "";
}

std::string lossProblem(const std::set<std::string>& answered,
                        const std::set<std::string>& present) {
  size_t lost = 0;
  std::string first;
  for (auto& key : answered) {
    if (present.contains(key)) continue;
    if (lost++ == 0) first = key;
  }
  if (lost == 0) return "";
  return std::to_string(lost) + " of " + std::to_string(answered.size()) +
         " answered writes are lost, the first is " + first;
}

std::string registerProblem(const History& history) {
  for (auto& [key, calls] : history) {
    if (auto problem = orderProblem(key, calls); !problem.empty()) return problem;
  }
  return revisionProblem(history);
}

}  // namespace talos::day
