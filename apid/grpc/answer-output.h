// The answers of a gRPC method: adds nodes' names and errors to its messages, and sends them or
// collects them in one merged answer.
#pragma once

#include <kj/refcount.h>

#include "apid/grpc/grpc-method.h"
#include "common/grpc/grpc-server.h"
#include "common/wire/budget.h"

namespace talos::grpcapi {

// The largest message that older clients accept (grpc-go's default limit). A node whose part
// exceeds the remaining space fails with ResourceExhausted.
constexpr size_t kMostMerged = 4u << 20;

// Returns the status of a call that failed with this exception.
grpc::GrpcStatus statusOf(const Entry& entry, const kj::Exception& problem);

// The charge of answer bytes that wait for a client, or for other nodes, to the client's account;
// the call's own charge covers a few bytes.
class AnswerCharge {
 public:
  explicit AnswerCharge(kj::Maybe<Budget::Account&> account) : account(account) {}
  // Sets the number of bytes to charge. Throws ResourceExhausted if it cannot grow; then the
  // previous charge stays, because its bytes do.
  void set(size_t bytes);
  // Sets the number of bytes; returns false if it cannot grow.
  bool trySet(size_t bytes);

 private:
  kj::Maybe<Budget::Account&> account;
  kj::Vector<Budget::Account::Hold> holds;  // one for each growth
  size_t charged = 0;
};

// A merged answer: its parts in the order of the nodes. Space for the error of a node is reserved
// until the node is complete, so that an error always fits.
class MergedAnswer {
 public:
  // Without `names`: the answer of this node alone.
  MergedAnswer(kj::ArrayPtr<const kj::StringPtr> names, kj::Maybe<Budget::Account&> account);

  void add(size_t index, kj::Array<kj::byte> part);
  // Adds an error instead of an answer, or after it. The text is truncated if it is too long, or
  // the account has no bytes left for it.
  void addProblem(size_t index, kj::StringPtr node, grpc::GrpcStatus status);
  bool answered(size_t index) const { return parts[index].size() > 0; }
  // Marks the node's part as finished.
  void complete(size_t index);
  // Returns the whole answer, and clears it.
  kj::Array<kj::byte> finish();

 private:
  kj::ArrayPtr<const kj::StringPtr> names;
  AnswerCharge charge;
  size_t size = 0, reserved = 0;
  kj::Array<kj::Vector<kj::Array<kj::byte>>> parts;  // for each node its answer, and an error
  kj::Array<bool> done;

  size_t reservedFor(size_t index) const;
  void put(size_t index, kj::Array<kj::byte> part);
};

// The output of a method for one node. It outlives the method's call.
class Output {
 public:
  // With `named`, each message names `node`; otherwise messages are not changed. An empty `node` is
  // this node.
  Output(grpc::GrpcCall& call, const Entry& entry, kj::StringPtr node, bool named,
         MergedAnswer& merged, size_t index, kj::Maybe<Budget::Account&> account)
      : call(call),
        entry(entry),
        node(node),
        named(named),
        merged(merged),
        index(index),
        account(account) {}
  KJ_DISALLOW_COPY_AND_MOVE(Output);

  // Sends the fields of a message except field 1, which names the node. Resolves when the client
  // has taken it.
  kj::Promise<void> send(kj::Array<kj::byte> message);
  // Sends an error after valid messages: clients print these and report the error. Nothing may
  // follow.
  kj::Promise<void> sendProblem(kj::Exception problem);
  // Charges the client for an answer of a node that is kept while its messages are sent. Throws
  // ResourceExhausted.
  AnswerCharge charge(capnp::MessageSize kept);
  // Returns the client's name for the node, for errors.
  kj::StringPtr nodeName() const { return node.size() > 0 ? node : "this node"_kj; }

 private:
  grpc::GrpcCall& call;
  const Entry& entry;
  kj::StringPtr node;
  bool named;
  MergedAnswer& merged;
  size_t index;
  kj::Maybe<Budget::Account&> account;
};

// A revocable reference to an output, for sinks: a node may hold a sink for longer than its call
// lasts, and a promise of the output must not outlive that call. A method that makes a sink calls
// end() when its call ends.
class LentOutput final : public kj::Refcounted {
 public:
  explicit LentOutput(Output& output) : output(output) {}

  // Drops pending messages before it returns; refuses later ones.
  void end() {
    output = nullptr;
    canceler.cancel("the client has gone");
  }
  kj::Promise<void> send(kj::Array<kj::byte> message) {
    KJ_IF_MAYBE (to, output) return canceler.wrap(to->send(kj::mv(message)));
    return error(ErrorKind::kUnavailable, "the client has gone");
  }
  // Calls Output::charge() for an answer that a node keeps open while it waits for the client.
  AnswerCharge charge(capnp::MessageSize kept) {
    KJ_IF_MAYBE (to, output) return to->charge(kept);
    return AnswerCharge(nullptr);
  }
  bool ended() const { return output == nullptr; }

 private:
  kj::Maybe<Output&> output;
  kj::Canceler canceler;
};

}  // namespace talos::grpcapi
