// Requests from one node all input of the checks, and owns its answers.
//
// All requests are sent at once, each with a deadline; a missing answer is recorded and delays no
// other. Nothing on the node is changed. From the machine config, only the fields that the checks
// need are kept, and no secrets.
#pragma once

#include "talosctl/client/cluster-client.h"
#include "talosctl/diagnose/illness-table.h"

namespace talos::talosctl {

class NodeQuestions {
 public:
  // `address` empty: the node of the endpoint, whose first address then becomes its address.
  NodeQuestions(Client& client, kj::String address);
  ~NodeQuestions() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(NodeQuestions);

  // Never rejects; takes at most 50 s.
  kj::Promise<void> ask();
  ObservedNode observed() const;

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

}  // namespace talos::talosctl
