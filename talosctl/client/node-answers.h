// Sends one request to many nodes at once, and combines the outcome.
#pragma once

#include <kj/async.h>

#include "common/base/error.h"
#include "talosctl/client/cluster-client.h"

namespace talos::talosctl {

struct Failure {
  kj::String node;
  kj::Exception cause;
};

template <typename Value>
struct NodeValue {
  kj::String node;
  Value value;
};

template <typename Value>
struct NodeValues {
  kj::Vector<NodeValue<Value>> good;  // in order of arrival
  kj::Vector<Failure> failures;
};

template <typename Results>
using Answer = NodeValue<capnp::Response<Results>>;
template <typename Results>
using Answers = NodeValues<capnp::Response<Results>>;

// The effect of failures of some nodes on the exit status.
enum class Partial {
  kIsSuccess,  // tables: a warning if at least one node answered
  kIsFailure,  // commands without output
};

// Prints failures on stderr and returns the exit status.
int conclude(Invocation& call, kj::ArrayPtr<const Failure> failures, size_t good, Partial partial);

// Returns "10.0.0.3: no answer within 30s".
kj::String describe(const Failure& failure);

// The order of calls that stop nodes. The node through which the others are reached comes last,
// because its connection, and the answers on their way, end with it.
class Turns {
 public:
  Turns(size_t nodes, kj::Maybe<size_t> last);
  // Resolves when this node may be called; once for each node.
  kj::Promise<void> start(size_t index);
  // Records that the node has answered, will not answer, or is no longer followed; exactly once for
  // each node.
  void answered(size_t index);

 private:
  kj::Maybe<size_t> last;
  size_t before;  // number of nodes without an answer that precede the last node
  kj::PromiseFulfillerPair<void> allAnswered = kj::newPromiseAndFulfiller<void>();
};
// Finds the node through which the others are reached, if it is one of `nodes`: requests the boot
// id of each.
kj::Promise<kj::Maybe<size_t>> findEndpoint(Session& session, kj::ArrayPtr<const kj::String> nodes);
// Creates the order of `nodes`; if there are several, calls findEndpoint().
kj::Promise<kj::Own<Turns>> takeTurns(Session& session, kj::ArrayPtr<const kj::String> nodes);

// Shows on the console the nodes that have not answered.
class MissingAnswers {
 public:
  MissingAnswers(Console& console, kj::ArrayPtr<const kj::String> nodes);
  void recordAnswer(size_t index);  // records an answer or a failure of this node

 private:
  Console& console;
  kj::ArrayPtr<const kj::String> nodes;
  kj::Array<bool> missing;

  void show();
};

// Calls `request`, which maps a node to the promise of its answer, for all nodes before it waits
// for the first.
template <typename Value, typename F>
kj::Promise<NodeValues<Value>> gather(Session& session, F request) {
  NodeValues<Value> values;
  auto& client = session.client;
  auto nodes = client.nodes();
  MissingAnswers missing(client.deps.console, nodes);
  auto waits = kj::heapArrayBuilder<kj::Promise<void>>(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    auto& node = nodes[i];
    kj::Promise<Value> value = request(client.node(node));
    waits.add(within(client.deps.timer, session.deadline, kj::mv(value))
                  .then([&](Value&& value) { values.good.add(kj::str(node), kj::mv(value)); },
                        [&](kj::Exception&& e) { values.failures.add(kj::str(node), kj::mv(e)); })
                  .then([&missing, i]() { missing.recordAnswer(i); })
                  .eagerlyEvaluate(nullptr));  // runs as each answer arrives, not after all
  }
  co_await kj::joinPromises(waits.finish());
  co_return kj::mv(values);
}

// The same for a single call; `request` returns its RemotePromise.
template <typename Results, typename F>
kj::Promise<Answers<Results>> askAll(Session& session, F request) {
  return gather<capnp::Response<Results>>(session, kj::mv(request));
}

}  // namespace talos::talosctl
