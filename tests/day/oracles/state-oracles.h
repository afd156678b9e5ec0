// Judges what a day has seen of the whole cluster: the hosts that answer for the shared address,
// the problems that remain after a recovery, and the states that a day must visit. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace talos::day {

// --- the shared address

// Counts since the beginning, and the announcements since the last look.
struct AddressLooks {
  struct Claim {
    std::string host;  // empty: no node has this hardware address
    bool had = false;  // the host's kernel had the address then
  };
  unsigned asked = 0;     // ARP questions
  unsigned twice = 0;     // that two hosts have answered
  unsigned overlaps = 0;  // looks at the kernels at which two had it
  std::string firstOverlap;
  std::vector<Claim> claims;
};
std::string addressProblem(const AddressLooks& looks);

// --- problems that remain

// The problems that `status` and `diagnose` print, a line each.
class Remaining {
 public:
  // Sets what is printed of a cluster that is well.
  void setUsual(const std::vector<std::string>& lines);
  // Returns the lines that are not usual. Numbers do not count, such as times and pids.
  std::string problem(const std::vector<std::string>& lines) const;

 private:
  std::vector<std::string> usual;
};

// --- states

// Counts the visits to the states that the table of operations names (plan/operation.h).
class VisitedStates {
 public:
  explicit VisitedStates(const std::vector<std::string>& wanted);

  void visit(const std::string& state);
  // Returns the states that a day of this length, of which these operations were possible, has
  // missed. A day of less than an hour may miss any.
  std::string problem(unsigned minutes) const;
  // "cut off 3, token spent 0"
  std::string text() const;

 private:
  std::map<std::string, unsigned> visits;
};

}  // namespace talos::day
