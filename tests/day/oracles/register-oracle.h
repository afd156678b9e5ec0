// Judges the history of keys in etcd, each of which is a register: it is linearizable, no answered
// write is lost, and the store's revisions never go back. Pure.
//
// Every written value is unique, so a read names the write that it has observed.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace talos::day {

struct Call {
  enum class What { kRead, kWrite, kSwap };
  enum class Outcome {
    kDone,
    kUnknown,  // no answer: it may take effect at any time from its beginning on
    kRefused,  // it has no effect
  };

  unsigned client = 0;
  What what = What::kRead;
  std::string value;           // that was written, or read; empty: the key did not exist
  std::string expected;        // of kSwap, which writes only if the key has this value
  int64_t begin = 0, end = 0;  // of one clock
  Outcome outcome = Outcome::kDone;
  int64_t revision = 0;  // of the store, in the answer; 0 if it is not known
  int64_t modified = 0;  // of kRead: the revision of the write; 0 if it is not known
};

using History = std::map<std::string, std::vector<Call>>;  // by key

// Returns why no order of the calls explains their answers; empty if there is one. A swap whose
// comparison failed is recorded as a read of the value that it found.
std::string orderProblem(const std::string& key, const std::vector<Call>& calls);

// Compares the revisions of the answers with the order of the calls in time, over all keys.
std::string revisionProblem(const History& history);

// Returns the first answered write that is missing among the keys that exist.
std::string lossProblem(const std::set<std::string>& answered,
                        const std::set<std::string>& present);

// Returns the first problem of all three kinds but lossProblem().
std::string registerProblem(const History& history);

}  // namespace talos::day
