// A client of etcd that writes all the time while members come and go. It reports how many writes
// were answered, and the longest time without an answer. Every write has its own key and a value of
// 16 KiB; a failed write is repeated once, at the other members.
#pragma once

#include <chrono>
#include <mutex>
#include <set>
#include <thread>

#include "tests/cluster/etcd-nodes.h"

namespace talos {

class EtcdLoad {
 public:
  static constexpr size_t kValue = 16384;  // bytes

  // Writes to `members`, until change() replaces them.
  EtcdLoad(const EtcdNodes& nodes, std::vector<EtcdNode> members);
  ~EtcdLoad() noexcept;
  EtcdLoad(const EtcdLoad&) = delete;

  // Sets the members to write to; called before a member that is missing in `members` leaves.
  void change(std::vector<EtcdNode> members);

  struct Figures {
    unsigned writes = 0;  // that were answered
    unsigned repeated = 0, lost = 0;
    double longest = 0;  // seconds between two answers
  };
  // Ends the load. Fails the test if an answered write is missing at `node`.
  Figures finish(const EtcdNode& node);

 private:
  using Clock = std::chrono::steady_clock;

  const EtcdNodes& nodes;
  std::mutex mutex;
  std::vector<EtcdNode> members;
  Figures figures;
  std::set<std::string> answered;  // keys
  Clock::time_point last = Clock::now();
  std::jthread thread;

  void run(const std::stop_token& over);
  void write(const std::string& key);
};

}  // namespace talos
