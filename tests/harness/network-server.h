// A server of tests that the nodes of a cluster reach: in a separate thread in their network, at
// 10.5.0.1. It can become unavailable and come back.
#pragma once

#include <fcntl.h>
#include <kj/async-io.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <sched.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "common/testing/test-http-server.h"
#include "tests/harness/cluster.h"

namespace talos::harness {

// `Server` is constructed from an AsyncIoContext and the options of its member `server`, a
// TestHttpServer. `Seen` is a copy of the requests so far, which `look` makes in the thread every
// 20 ms.
template <typename Server, typename Seen>
class NetworkServer {
 public:
  // The options' texts must outlive this object.
  NetworkServer(const Cluster& cluster, TestHttpServer::Options options,
                std::function<Seen(Server&)> look)
      : network("/proc/" + std::to_string(cluster.supervisor()) + "/ns/net"),
        options(options),
        look(std::move(look)),
        thread([this](const std::stop_token& over) { serve(over); }) {}

  std::atomic<bool> away = false;
  bool isAway() const { return wasAway; }
  Seen seen() const {
    std::lock_guard locked(guard);
    return latest;
  }

 private:
  static constexpr in_addr_t kAddress = 10u << 24 | 5u << 16 | 1;
  static constexpr auto kLook = 20 * kj::MILLISECONDS;
  std::string network;
  TestHttpServer::Options options;
  std::function<Seen(Server&)> look;
  mutable std::mutex guard;
  Seen latest;
  std::atomic<bool> wasAway = false;
  std::jthread thread;  // the last: it ends first

  void serve(const std::stop_token& over) {
    int raw;
    KJ_SYSCALL(raw = open(network.c_str(), O_RDONLY | O_CLOEXEC), network.c_str());
    kj::AutoCloseFd fd(raw);
    KJ_SYSCALL(setns(fd, CLONE_NEWNET));
    auto io = kj::setupAsyncIo();
    options.address = kAddress;
    Server server(io, options);
    while (!over.stop_requested()) {
      io.provider->getTimer().afterDelay(kLook).wait(io.waitScope);
      if (away != wasAway) {
        away ? server.server.stop() : server.server.start();
        wasAway = !wasAway;
      }
      std::lock_guard locked(guard);
      latest = look(server);
    }
  }
};

}  // namespace talos::harness
