// The newest lines of one log of a node, followed until it is dropped.
#pragma once

#include "talosctl/client/cluster-client.h"
#include "talosctl/dashboard/shared-client.h"

namespace talos::talosctl::dashboard {

class LogTail {
 public:
  // `service` empty: the kernel's log.
  LogTail(SharedClient& client, kj::StringPtr node, kj::StringPtr service);
  KJ_DISALLOW_COPY_AND_MOVE(LogTail);

  bool isOf(kj::StringPtr node, kj::StringPtr service) const {
    return this->node == node && this->service == service;
  }
  // Returns the lines, oldest first, at most kMostLines. If the log cannot be followed further, a
  // line says why.
  kj::ArrayPtr<const kj::String> lines() const { return kept->lines; }

 private:
  static constexpr size_t kMostLines = 2000;
  // The node may still send lines after the tail is destroyed.
  struct Kept final : public kj::Refcounted {
    kj::Vector<kj::String> lines;
    uint64_t next = 0;  // position after the last line
    void add(kj::ArrayPtr<const char> line);
  };
  class Sink;
  SharedClient& client;
  kj::String node, service;
  kj::String bootId;  // boot id of the node at the last read
  kj::Own<Kept> kept = kj::refcounted<Kept>();
  kj::Promise<void> following;

  kj::Promise<void> follow();
  kj::Promise<void> read();
  kj::Promise<void> startAnewAfterReboot(SharedClient::Held& held);
};

}  // namespace talos::talosctl::dashboard
