// A client of etcd that writes all the time while its members come and go: which writes were
// answered, and for how long none was. Every write has a key of its own and a value of 16 KiB; one
// that fails is repeated once, at the other members.
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

  // To members, which change() replaces.
  EtcdLoad(const EtcdNodes& nodes, std::vector<EtcdNode> members);
  ~EtcdLoad() noexcept;
  EtcdLoad(const EtcdLoad&) = delete;

  // Before the first of `members` that is missing leaves.
  void change(std::vector<EtcdNode> members);

  struct Figures {
    unsigned writes = 0;  // that were answered
    unsigned repeated = 0, lost = 0;
    double longest = 0;  // seconds between two answers
  };
  // Ends it. Fails the test when a write that was answered is not there, as `node` has it.
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
