// Asks one node everything that the checks look at.
//
// All questions go out at once, each with a deadline; what is not answered is kept as such and
// stops nothing. Nothing on the node is changed. Of the machine config only what the checks need is
// kept, no secrets.
#pragma once

#include "rpc/diagnosis.capnp.h"
#include "talosctl/client/cluster-client.h"

namespace talos::talosctl {

class NodeQuestions {
 public:
  // `address` empty: the node of the endpoint, which is then called by its first address.
  NodeQuestions(Client& client, kj::String address);
  ~NodeQuestions() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(NodeQuestions);

  // Never rejects; within 40 s.
  kj::Promise<void> ask();
  rpc::Observations::Node::Reader seen() const;

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

}  // namespace talos::talosctl
