// Repeatedly requests the state that the dashboard shows of one node, and keeps the newest answers.
//
// Every request has a deadline; if it is not answered, the previous answer is kept. A node that
// does not report its version in time is silent, and gets no other request in this round. Nothing
// on the node is changed.
#pragma once

#include "rpc/dashboard.capnp.h"
#include "talosctl/dashboard/shared-client.h"

namespace talos::talosctl::dashboard {

class NodeFollower {
 public:
  // `address` empty: the node of the endpoint, whose own first address then becomes its address.
  NodeFollower(SharedClient& client, kj::StringPtr address);
  ~NodeFollower() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(NodeFollower);

  // Runs rounds in this interval; never ends and never rejects.
  kj::Promise<void> follow(kj::Duration interval);
  // Runs one round. `closely`: includes processes, control groups and other data that only the
  // node's page shows.
  kj::Promise<void> round(bool closely);

  kj::StringPtr target() const;
  bool isControlPlane() const;
  bool answers() const;  // the node answered in the newest round
  bool has(kj::StringPtr address) const;
  void look(bool closely);

  void write(rpc::DashboardNode::Builder out) const;

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

}  // namespace talos::talosctl::dashboard
