// A node to which a new config may give other addresses. It is called at the address that the user
// named and, while it does not answer there, at each static address of the config in turn.
#pragma once

#include "talosctl/client/cluster-client.h"

namespace talos::talosctl {

class MovedNode {
 public:
  MovedNode(Invocation& call, kj::StringPtr node, kj::StringPtr document);
  KJ_DISALLOW_COPY_AND_MOVE(MovedNode);

  // The target of the next connection, and the name of the node through it.
  Target target() const;
  kj::StringPtr name() const { return names[at]; }
  // Returns true if the user has not named this address: another machine may have it.
  bool isElsewhere() const { return at > 0; }
  // Takes the next address, because the node does not answer.
  void next() { at = (at + 1) % names.size(); }

 private:
  Invocation& call;
  kj::Vector<kj::String> names;  // the user's name of the node comes first
  size_t at = 0;
};

}  // namespace talos::talosctl
