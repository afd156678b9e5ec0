// apid's second face: the API of the original as its own clients call it, by gRPC, on the same port
// (docs/clients.md).
//
// A client's calls are made with its own Cluster capability and nothing else, so roles, audit,
// maintenance mode, forwarding and limits are what they are for the first face. What is here is
// translation: which method is which of ours, which field which, and whose answer is whose.
//
// Which nodes are asked follows the call's metadata. `nodes`, one header each: all of them at once,
// each name once; each answer tells whose it is, a node that fails is an answer with its error, and
// the call itself succeeds, also when some of them are silent until its deadline is near. `node`:
// that one, whose error is the call's. Neither: this machine.
#pragma once

#include <kj/map.h>

#include "apid/grpc/grpc-method.h"
#include "apid/grpc/resource-messages.h"
#include "common/grpc/grpc-server.h"

namespace talos::edge {

// What a client of old takes at most as one message (grpc-go's own limit). A node whose part does
// not fit any more fails with ResourceExhausted.
constexpr size_t kMostMerged = 4u << 20;

// That one call may name, a name that comes again not counted. Each of them costs the client's
// account what a call of the first face does, as long as it is asked.
constexpr size_t kMostNodes = 256;

class Edge {
 public:
  Edge();
  KJ_DISALLOW_COPY_AND_MOVE(Edge);

  // For one connection. Must go before this and `timer`. `account`: that of the connection's
  // client, or null.
  kj::Own<grpc::GrpcHandler> open(kj::Timer& timer, rpc::Cluster::Client cluster,
                                  kj::Own<Budget::Account> account = {}) const;

  // In their order.
  kj::ArrayPtr<const Entry> entries() const { return all; }

 private:
  ResourceMessages resources;
  kj::Vector<Entry> all;
  kj::HashMap<kj::StringPtr, const Entry*> byPath;
  class Handler;
};

}  // namespace talos::edge
