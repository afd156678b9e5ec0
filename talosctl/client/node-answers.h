// One request to many nodes at once, and the outcome.
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

// How the failures of some nodes decide the exit status.
enum class Partial {
  kIsSuccess,  // tables: a warning while at least one node answered
  kIsFailure,  // silent commands
};

// Prints failures on stderr and gives the exit status.
int conclude(Invocation& call, kj::ArrayPtr<const Failure> failures, size_t good, Partial partial);

// "10.0.0.3: no answer within 30s"
kj::String describe(const Failure& failure);

// The order of calls that take nodes down. The node through which the others are reached comes
// last, because the connection, and the answers still on their way, end with it.
class Turns {
 public:
  Turns(size_t nodes, kj::Maybe<size_t> last);
  // Resolves when this node may be called; once for each node.
  kj::Promise<void> start(size_t index);
  // The node has answered, or will not, or is no longer followed; exactly once for each node.
  void answered(size_t index);

 private:
  kj::Maybe<size_t> last;
  size_t before;  // nodes that have not answered yet and go before the last one
  kj::PromiseFulfillerPair<void> allAnswered = kj::newPromiseAndFulfiller<void>();
};
// That node, if it is one of these: asks each for its boot id.
kj::Promise<kj::Maybe<size_t>> findEndpoint(Session& session, kj::ArrayPtr<const kj::String> nodes);
// If there are several nodes, finds that node.
kj::Promise<kj::Own<Turns>> takeTurns(Session& session, kj::ArrayPtr<const kj::String> nodes);

// Shows on the console which nodes have not answered.
class MissingAnswers {
 public:
  MissingAnswers(Console& console, kj::ArrayPtr<const kj::String> nodes);
  void heard(size_t index);  // of this node, also when it has failed

 private:
  Console& console;
  kj::ArrayPtr<const kj::String> nodes;
  kj::Array<bool> missing;

  void show();
};

// `request` maps a node to the promise of what is asked of it; all are made before the first wait.
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
                  .then([&missing, i]() { missing.heard(i); })
                  .eagerlyEvaluate(nullptr));  // when it comes, not when all have
  }
  co_await kj::joinPromises(waits.finish());
  co_return kj::mv(values);
}

// The same of one call, whose RemotePromise `request` gives.
template <typename Results, typename F>
kj::Promise<Answers<Results>> askAll(Session& session, F request) {
  return gather<capnp::Response<Results>>(session, kj::mv(request));
}

}  // namespace talos::talosctl
