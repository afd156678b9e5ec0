// A thread in the network of a cluster's nodes, for servers that they reach.
#pragma once

#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <sched.h>

#include <functional>
#include <string>
#include <thread>

#include "tests/harness/cluster.h"

namespace talos::harness {

// Ends when the object does: `serve` looks at its token every now and then. An address of the host
// in it is 10.5.0.1.
class NetworkThread {
 public:
  NetworkThread(const Cluster& cluster, std::function<void(const std::stop_token&)> serve)
      : network("/proc/" + std::to_string(cluster.supervisor()) + "/ns/net"),
        thread([this, serve = std::move(serve)](std::stop_token over) {
          enter();
          serve(over);
        }) {}

 private:
  std::string network;
  std::jthread thread;

  void enter() const {
    int raw;
    KJ_SYSCALL(raw = open(network.c_str(), O_RDONLY | O_CLOEXEC), network.c_str());
    kj::AutoCloseFd fd(raw);
    KJ_SYSCALL(setns(fd, CLONE_NEWNET));
  }
};

}  // namespace talos::harness
