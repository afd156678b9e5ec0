#include "tests/day/oracles/state-oracles.h"

#include <algorithm>
#include <regex>
#include <stdexcept>

namespace talos::day {
namespace {

constexpr unsigned kHour = 60;  // minutes

std::string withoutNumbers(const std::string& line) {
  static const std::regex number("[0-9]+(\\.[0-9]+)?( ?(ms|s|m|h|MiB|KiB|GiB|%))?");
  // Addresses name nodes, so they count.
  static const std::regex address("([0-9]+)\\.([0-9]+)\\.([0-9]+)\\.([0-9]+)");
  std::string kept;
  auto from = line.cbegin();
  for (std::sregex_iterator it(line.begin(), line.end(), address), end; it != end; ++it) {
    kept += std::regex_replace(std::string(from, (*it)[0].first), number, "#") + it->str();
    from = (*it)[0].second;
  }
  return kept + std::regex_replace(std::string(from, line.cend()), number, "#");
}

}  // namespace

std::string addressProblem(const AddressLooks& looks) {
  if (looks.twice > 0) {
    return std::to_string(looks.twice) + " of " + std::to_string(looks.asked) +
           " questions for the shared address were answered by two hosts";
  }
  if (looks.overlaps > 0) {
    return "two kernels had the shared address at " + std::to_string(looks.overlaps) +
           " looks, the first time " + looks.firstOverlap;
  }
  for (auto& claim : looks.claims) {
    if (claim.host.empty()) return "a host that is no node announced the shared address";
    if (!claim.had) return claim.host + " announced the shared address and had not got it";
  }
  return "";
}

void Remaining::setUsual(const std::vector<std::string>& lines) {
  usual.clear();
  for (auto& line : lines) usual.push_back(withoutNumbers(line));
}

std::string Remaining::problem(const std::vector<std::string>& lines) const {
  std::string found;
  for (auto& line : lines) {
    if (std::ranges::find(usual, withoutNumbers(line)) != usual.end()) continue;
    found += (found.empty() ? "" : "; ") + line;
  }
  return found;
}

VisitedStates::VisitedStates(const std::vector<std::string>& wanted) {
  for (auto& state : wanted) visits[state] = 0;
}

void VisitedStates::visit(const std::string& state) {
  auto it = visits.find(state);
  if (it == visits.end()) throw std::logic_error("no day visits the state " + state);
  ++it->second;
}

std::string VisitedStates::problem(unsigned minutes) const {
  if (minutes < kHour) return "";
  std::string missed;
  for (auto& [state, times] : visits) {
    if (times == 0) missed += (missed.empty() ? "" : ", ") + state;
  }
  return missed.empty() ? "" : "the day has never visited: " + missed;
}

std::string VisitedStates::text() const {
  std::string all;
  for (auto& [state, times] : visits) {
    all += (all.empty() ? "" : ", ") + state + " " + std::to_string(times);
  }
  return all;
}

}  // namespace talos::day
