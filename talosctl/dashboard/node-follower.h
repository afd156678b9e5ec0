// Asks one node for what the dashboard shows of it, again and again, and keeps the newest answers.
//
// Every question has a deadline; one without an answer keeps the answer before. A node that does
// not say its version in time is silent, and asked for nothing else in that round. Nothing on the
// node is changed.
#pragma once

#include "rpc/dashboard.capnp.h"
#include "talosctl/dashboard/shared-client.h"

namespace talos::talosctl::dashboard {

class NodeFollower {
 public:
  // `address` empty: the node of the endpoint, which is then known by its own first address.
  NodeFollower(SharedClient& client, kj::StringPtr address);
  ~NodeFollower() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(NodeFollower);

  // Rounds in this interval; never ends and never rejects.
  kj::Promise<void> follow(kj::Duration interval);
  // One round. `closely`: processes, control groups and other things that only its page shows.
  kj::Promise<void> round(bool closely);

  kj::StringPtr asked() const;
  bool isControlPlane() const;
  bool answers() const;  // the newest round
  bool has(kj::StringPtr address) const;
  void look(bool closely);

  void write(rpc::DashboardNode::Builder out) const;

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

}  // namespace talos::talosctl::dashboard
