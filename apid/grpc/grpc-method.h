// One method of the original's API, as a node is asked for it. methods.cc has all of them.
//
// A method is asked of one node at a time and knows neither of the others nor of the names that
// answers get: that is edge.cc's. It owns nothing but what it was made of, so one serves any number
// of calls at once, each of which ends when its promise is dropped.
#pragma once

#include <kj/timer.h>

#include "apid/grpc/protobuf-wire.h"
#include "common/base/error.h"
#include "common/wire/budget.h"
#include "rpc/node.capnp.h"

namespace talos::edge {

// Where answers go. Outlives the call.
class Output {
 public:
  // The fields of a message but field 1, which tells the node. Resolves when it has been taken.
  virtual kj::Promise<void> send(kj::Array<kj::byte> message) = 0;
  // What went wrong, after all that went well: clients take what there is, and tell the rest as an
  // error. Nothing may follow.
  virtual kj::Promise<void> sendProblem(kj::Exception problem) = 0;

 protected:
  ~Output() noexcept(false) = default;
};

// Where a call's messages come from. Outlives the call.
class Input {
 public:
  // The next one; none behind the last.
  virtual kj::Promise<kj::Maybe<kj::Array<kj::byte>>> next() = 0;

 protected:
  ~Input() noexcept(false) = default;
};

struct Method {
  virtual ~Method() noexcept(false) = default;
  // `request` stays as long as the promise.
  virtual kj::Promise<void> ask(rpc::Node::Client node, Bytes request, Output& output) const = 0;
};

struct Surroundings {
  rpc::Cluster::Client cluster;  // the client's own
  kj::Timer& timer;
  kj::Maybe<Budget::Account&> account;  // of the client, for calls to other nodes
};

// A method that needs more than a node and one request: a stream of requests, other nodes, time.
// A call of it is for one node.
struct WideMethod {
  virtual ~WideMethod() noexcept(false) = default;
  virtual kj::Promise<void> ask(rpc::Node::Client node, Surroundings around, Input& input,
                                Output& output) const = 0;
};

// How an answer looks to the client.
enum class Answer {
  kMerged,      // one message: field 1 is a list with one element of each node
  kItems,       // a stream of all nodes' messages, each of which tells its node
  kPlain,       // one message of one node, as it is
  kPlainItems,  // a stream of those
};

struct Entry {
  kj::StringPtr path;  // /machine.MachineService/Version
  Answer answer;
  kj::Own<const Method> method = {};  // null: `wide`
  // What a Conflict of ours is called there: FailedPrecondition, or AlreadyExists.
  bool conflictMeansExists = false;
  kj::Own<const WideMethod> wide = {};
};

}  // namespace talos::edge
