// apid's gRPC API: the API of Talos for its clients, on the same port as ours
// (docs/clients.md).
//
// A client's calls are made with its own Cluster capability and nothing else, so roles, audit,
// maintenance mode, forwarding and limits are the same as for our API. This room only translates:
// methods, fields, and the names of nodes in answers.
//
// The call's metadata selects the nodes. `nodes`, one header each: all of them at once, each name
// once; each answer names its node, the error of a node is part of the answer, and the call itself
// succeeds, even if some nodes are silent until its deadline is near. `node`: this one node, whose
// error is the call's error. Neither: the local node.
//
// `x-request-id`: the id of the request (common/wire/request-id.h); without a valid id, each called
// node makes one.
#pragma once

#include <kj/map.h>

#include "apid/grpc/answer-output.h"
#include "apid/grpc/grpc-method.h"
#include "apid/grpc/resource-messages.h"
#include "common/grpc/grpc-server.h"
#include "common/wire/call-observer.h"
#include "common/wire/rpc-server.h"

namespace talos::grpcapi {

// The number of different nodes that one call may name. Each is charged to the client's account
// like a call of our API, until its answer arrives.
constexpr size_t kMostNodes = 256;

class GrpcApi {
 public:
  GrpcApi();
  KJ_DISALLOW_COPY_AND_MOVE(GrpcApi);

  // Returns the handler of one connection. This object and `timer` outlive it. `account` belongs to
  // the connection's client, or is nullptr; the same holds for the observer of its calls.
  kj::Own<grpc::GrpcHandler> open(kj::Timer& timer, rpc::Cluster::Client cluster,
                                  kj::Own<Budget::Account> account = {},
                                  kj::Own<CallObserver> observer = {}) const;

  // Returns all methods, in the order of allMethods() (method-table.cc).
  kj::ArrayPtr<const Entry> entries() const { return all; }

 private:
  ResourceMessages resources;
  kj::Vector<Entry> all;
  kj::HashMap<kj::StringPtr, const Entry*> byPath;
  class Handler;
};

// The gRPC API as a second protocol of apid's port: HTTP/2 after TLS, recognized by its preface. A
// connection has the limits of common/grpc/grpc-server.h, and is charged to its client's account as
// a connection of our API is.
//
// The port's TLS endpoint has to select "h2" (TlsEndpoint::enableHttp2()), as gRPC clients require
// it. Both arguments outlive the server.
OtherProtocol grpcProtocol(kj::Timer& timer, const GrpcApi& api);

}  // namespace talos::grpcapi
