// Asks one node everything that the checks look at, and owns its answers.
//
// All questions are sent at once, each with a deadline; one without an answer is kept as such and
// stops no other. Nothing on the node is changed. Of the machine config only what the checks need
// is kept, no secrets.
#pragma once

#include "talosctl/client/cluster-client.h"
#include "talosctl/diagnose/illness-table.h"

namespace talos::talosctl {

class NodeQuestions {
 public:
  // `address` empty: the node of the endpoint, which is then known by its first address.
  NodeQuestions(Client& client, kj::String address);
  ~NodeQuestions() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(NodeQuestions);

  // Never rejects; within 40 s.
  kj::Promise<void> ask();
  ObservedNode observed() const;

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

}  // namespace talos::talosctl
