#include "tests/cluster/etcd-load.h"

#include <gtest/gtest.h>

namespace talos {

EtcdLoad::EtcdLoad(const EtcdNodes& nodes, std::vector<EtcdNode> members)
    : nodes(nodes),
      members(std::move(members)),
      thread([this](const std::stop_token& over) { run(over); }) {}

EtcdLoad::~EtcdLoad() noexcept {
  thread.request_stop();
  if (thread.joinable()) thread.join();
}

void EtcdLoad::change(std::vector<EtcdNode> now) {
  std::lock_guard locked(mutex);
  members = std::move(now);
}

void EtcdLoad::run(const std::stop_token& over) {
  for (unsigned number = 0; !over.stop_requested(); ++number) {
    write("/load/" + std::to_string(number));
  }
}

void EtcdLoad::write(const std::string& key) {
  static const std::string value(kValue, 'x');
  std::unique_lock locked(mutex);
  auto asked = members;
  locked.unlock();
  bool done = nodes.put(asked[0], key, value), first = done;
  for (size_t i = 1; i < asked.size() && !done; ++i) done = nodes.put(asked[i], key, value);
  if (!done) done = nodes.put(asked[0], key, value);
  locked.lock();
  if (!first) ++(done ? figures.repeated : figures.lost);
  if (!done) return;
  auto now = Clock::now();
  figures.longest = std::max(figures.longest, std::chrono::duration<double>(now - last).count());
  last = now;
  ++figures.writes;
  answered.insert(key);
}

EtcdLoad::Figures EtcdLoad::finish(const EtcdNode& node) {
  thread.request_stop();
  thread.join();
  auto shown = nodes.etcdctl(node, {"get", "--prefix", "--keys-only", "/load/"});
  std::set<std::string> there;
  for (auto& line : harness::lines(shown.out)) there.insert(line);
  size_t missing = 0;
  for (auto& key : answered) missing += there.contains(key) ? 0 : 1;
  EXPECT_EQ(missing, 0u) << "of " << answered.size() << " writes that were answered; " << shown.err;
  return figures;
}

}  // namespace talos
