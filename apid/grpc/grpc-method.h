// One method of the gRPC API, for one node. method-table.cc lists all methods.
//
// A method calls one node at a time; grpc-api.cc calls it for each node, and Output adds the nodes'
// names. A method has no state, so one object serves any number of calls at once, each of which
// ends when its promise is dropped.
#pragma once

#include <kj/timer.h>

#include "common/base/error.h"
#include "common/grpc-messages/protobuf-wire.h"
#include "common/grpc/grpc-server.h"
#include "common/wire/budget.h"
#include "rpc/node.capnp.h"

namespace talos::grpcapi {

class Output;  // answer-output.h

// The request messages of a streaming call. It outlives the call.
class RequestStream {
 public:
  explicit RequestStream(grpc::GrpcCall& call) : call(call) {}
  // Returns the next message; nullptr after the last.
  kj::Promise<kj::Maybe<kj::Array<kj::byte>>> next() { return call.receive(); }

 private:
  grpc::GrpcCall& call;
};

struct Method {
  virtual ~Method() noexcept(false) = default;
  // `request` and `output` outlive the promise.
  virtual kj::Promise<void> ask(rpc::Node::Client node, Bytes request, Output& output) const = 0;
};

struct CallContext {
  rpc::Cluster::Client cluster;  // the client's Cluster
  kj::Timer& timer;
  kj::Maybe<Budget::Account&> account;  // the client's account, for calls to other nodes
  kj::StringPtr request;                // the client's id of the request, or empty
};

// A method that needs more than a node and one request: a stream of requests, other nodes, a timer.
// Each of its calls is for one node.
struct StreamMethod {
  virtual ~StreamMethod() noexcept(false) = default;
  virtual kj::Promise<void> ask(rpc::Node::Client node, CallContext context, RequestStream& input,
                                Output& output) const = 0;
};

// The form of a method's answers.
enum class Answer {
  kMerged,      // one message: field 1 is a list with one element for each node
  kItems,       // a stream of all nodes' messages, each of which names its node
  kPlain,       // one message of one node, unchanged
  kPlainItems,  // a stream of such messages
};

struct Entry {
  kj::StringPtr path;  // for example /machine.MachineService/Version
  Answer answer;
  kj::Own<const Method> method = {};  // nullptr: `streamMethod` is set
  // The client gets AlreadyExists for a Conflict, not FailedPrecondition.
  bool conflictMeansExists = false;
  kj::Own<const StreamMethod> streamMethod = {};
};

}  // namespace talos::grpcapi
