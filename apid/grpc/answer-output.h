// The answers of a gRPC method: adds nodes' names and errors to its messages, and sends them or
// collects them in one merged answer.
#pragma once

#include "apid/grpc/grpc-method.h"
#include "common/grpc/grpc-server.h"
#include "common/wire/budget.h"

namespace talos::grpcapi {

// The largest message that older clients accept (grpc-go's own limit). A node whose part does not
// fit any more fails with ResourceExhausted.
constexpr size_t kMostMerged = 4u << 20;

// The status of a call that failed with this exception.
grpc::GrpcStatus statusOf(const Entry& entry, const kj::Exception& problem);

// Bytes of answers that wait for a client, or for other nodes, count against the client's account;
// few are part of its call.
class AnswerCharge {
 public:
  explicit AnswerCharge(kj::Maybe<Budget::Account&> account) : account(account) {}
  // The number of bytes from now on. Throws ResourceExhausted when it cannot grow; then what was
  // charged before stays, as what it is for does.
  void set(size_t bytes);
  // The same, false when it cannot grow.
  bool trySet(size_t bytes);

 private:
  kj::Maybe<Budget::Account&> account;
  kj::Vector<Budget::Account::Hold> holds;  // one for each time that it grew
  size_t charged = 0;
};

// A merged answer: its parts in the order of the nodes. Space for the error of a node is reserved
// until that node is complete, so that such an answer always fits.
class MergedAnswer {
 public:
  // Without `names`: this node alone.
  MergedAnswer(kj::ArrayPtr<const kj::StringPtr> names, kj::Maybe<Budget::Account&> account);

  void add(size_t index, kj::Array<kj::byte> part);
  // Adds an error instead of an answer, or behind it. A text that is too long, or for which nothing
  // is left of the account, is truncated.
  void addProblem(size_t index, kj::StringPtr node, grpc::GrpcStatus status);
  bool answered(size_t index) const { return parts[index].size() > 0; }
  // Nothing more follows from this node.
  void complete(size_t index);
  // The whole answer. Nothing is left here.
  kj::Array<kj::byte> finish();

 private:
  kj::ArrayPtr<const kj::StringPtr> names;
  AnswerCharge charge;
  size_t size = 0, reserved = 0;
  kj::Array<kj::Vector<kj::Array<kj::byte>>> parts;  // of each node its answer, and an error
  kj::Array<bool> done;

  size_t reservedFor(size_t index) const;
  void put(size_t index, kj::Array<kj::byte> part);
};

// The output of a method for one node. Outlives its call.
class Output {
 public:
  // With `named`, `node` is named in each message; otherwise messages are not changed. An empty
  // node is this one.
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

  // Sends the fields of a message except field 1, which names the node. Resolves when it was taken.
  kj::Promise<void> send(kj::Array<kj::byte> message);
  // Sends an error after messages that are valid: clients print these and report the error. Nothing
  // may follow.
  kj::Promise<void> sendProblem(kj::Exception problem);
  // Charges the client for an answer of a node that is kept while messages made of it are sent.
  // Throws ResourceExhausted.
  AnswerCharge charge(capnp::MessageSize kept);
  // As the client names it, for errors.
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

}  // namespace talos::grpcapi
