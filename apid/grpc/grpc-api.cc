#include "apid/grpc/grpc-api.h"

#include <kj/debug.h>
#include <kj/map.h>
#include <string.h>

#include "apid/grpc/all-methods.h"

namespace talos::edge {
namespace {

using grpc::GrpcCall;
using grpc::GrpcStatus;

constexpr kj::uint kFailedPrecondition = 9, kAlreadyExists = 6, kPermissionDenied = 7;

constexpr kj::StringPtr kCodeNames[] = {
    "OK"_kj,
    "Canceled"_kj,
    "Unknown"_kj,
    "InvalidArgument"_kj,
    "DeadlineExceeded"_kj,
    "NotFound"_kj,
    "AlreadyExists"_kj,
    "PermissionDenied"_kj,
    "ResourceExhausted"_kj,
    "FailedPrecondition"_kj,
    "Aborted"_kj,
    "OutOfRange"_kj,
    "Unimplemented"_kj,
    "Internal"_kj,
    "Unavailable"_kj,
    "DataLoss"_kj,
    "Unauthenticated"_kj,
};

GrpcStatus statusOf(const Entry& entry, const kj::Exception& problem) {
  auto status = grpc::statusOf(problem);
  if (status.code == kFailedPrecondition && entry.conflictMeansExists &&
      kindOf(problem) == ErrorKind::kConflict) {
    status.code = kAlreadyExists;
  }
  // Scripts match this text; of what else is denied, it would lie.
  if (status.code == kPermissionDenied && strstr(status.message.cStr(), " needs the role ")) {
    status.message = kj::str("not authorized: ", status.message);
  }
  return status;
}

// Field 1 of an answer: whose it is, and why there is nothing more in it.
void writeMetadata(WireWriter& out, kj::StringPtr node, const GrpcStatus* problem = nullptr) {
  WireWriter metadata;
  metadata.text(1, node);
  if (problem != nullptr) {
    KJ_ASSERT(problem->code < kj::size(kCodeNames));
    metadata.text(
        2, kj::str("rpc error: code = ", kCodeNames[problem->code], " desc = ", problem->message));
    WireWriter status;
    status.varint(1, problem->code);
    status.text(2, problem->message);
    metadata.bytes(3, status.written());
  }
  out.bytes(1, metadata.written());
}

// A merged answer: its parts in the order of the nodes. What a node needs to say that it failed is
// kept for it until nothing more comes of it, so that such an answer always fits.
class Merger {
 public:
  // `names`: none is this machine alone.
  explicit Merger(kj::ArrayPtr<const kj::StringPtr> names)
      : names(names),
        parts(kj::heapArray<kj::Vector<kj::Array<kj::byte>>>(kj::max(names.size(), size_t(1)))),
        done(kj::heapArray<bool>(parts.size())) {
    for (auto i : kj::indices(parts)) {
      done[i] = false;
      kept += room(i);
    }
  }

  void add(size_t index, kj::Array<kj::byte> part) {
    if (parts[index].size() > 0) fail(ErrorKind::kInternal, "a node has answered twice");
    auto all = size + kept + framed(part.size());
    if (all > kMostMerged) {
      fail(ErrorKind::kResourceExhausted,
           parts.size() == 1
               ? kj::str("the answer is ", part.size(), " bytes, and ", kMostMerged,
                         " is what a client takes")
               : kj::str("the answers of all nodes are ", all, " bytes, and ", kMostMerged,
                         " is what a client takes; ask fewer nodes at once"));
    }
    put(index, kj::mv(part));
  }
  // Instead of an answer, or behind it. A text that is too long for what is left is cut.
  void addProblem(size_t index, kj::StringPtr node, GrpcStatus status) {
    for (;;) {
      WireWriter out;
      writeMetadata(out, node, &status);
      auto fits = size + kept - room(index) + framed(out.size()) <= kMostMerged;
      if (fits || status.message.size() == 0) return put(index, out.finish());
      status.message = kj::heapString(status.message.slice(0, status.message.size() / 2));
    }
  }
  bool answered(size_t index) const { return parts[index].size() > 0; }
  // Nothing more comes of it.
  void over(size_t index) {
    kept -= room(index);
    done[index] = true;
  }
  kj::Array<kj::byte> finish() const {
    WireWriter out;
    for (auto& ofNode : parts) {
      for (auto& part : ofNode) out.bytes(1, part);
    }
    return out.finish();
  }

 private:
  // Of a problem besides the node's name; and what a byte of that may become that is not UTF-8.
  static constexpr size_t kProblem = 1024, kReplaced = 3;

  kj::ArrayPtr<const kj::StringPtr> names;
  size_t size = 0, kept = 0;
  kj::Array<kj::Vector<kj::Array<kj::byte>>> parts;  // of each node its answer, and a problem
  kj::Array<bool> done;

  size_t room(size_t index) const {
    return names.size() == 0 || done[index] ? 0 : kProblem + kReplaced * names[index].size();
  }
  // As a field of a message.
  static size_t framed(size_t bytes) {
    WireWriter length;
    length.varint(1, bytes);
    return length.size() + bytes;
  }
  void put(size_t index, kj::Array<kj::byte> part) {
    size += framed(part.size());
    parts[index].add(kj::mv(part));
  }
};

// What one node says in a call.
class NodeOutput final : public Output {
 public:
  NodeOutput(GrpcCall& call, const Entry& entry, kj::Maybe<kj::StringPtr> node, Merger& merger,
             size_t index)
      : call(call), entry(entry), node(node), merger(merger), index(index) {}

  kj::Promise<void> send(kj::Array<kj::byte> message) override {
    KJ_IF_MAYBE (name, node) {
      WireWriter out;
      writeMetadata(out, *name);
      out.append(message);
      message = out.finish();
    }
    return pass(kj::mv(message));
  }
  kj::Promise<void> sendProblem(kj::Exception problem) override {
    auto status = statusOf(entry, problem);
    if (entry.answer == Answer::kMerged) {
      merger.addProblem(index, node.orDefault(""), kj::mv(status));
      return kj::READY_NOW;
    }
    WireWriter out;
    writeMetadata(out, node.orDefault(""), &status);
    return call.send(out.finish());
  }

 private:
  GrpcCall& call;
  const Entry& entry;
  kj::Maybe<kj::StringPtr> node;  // that an answer has to name
  Merger& merger;
  size_t index;

  kj::Promise<void> pass(kj::Array<kj::byte> message) {
    if (entry.answer != Answer::kMerged) return call.send(kj::mv(message));
    merger.add(index, kj::mv(message));
    return kj::READY_NOW;
  }
};

class Messages final : public Input {
 public:
  explicit Messages(GrpcCall& call) : call(call) {}
  kj::Promise<kj::Maybe<kj::Array<kj::byte>>> next() override { return call.receive(); }

 private:
  GrpcCall& call;
};

// What the call's metadata says of where it goes.
struct Targets {
  kj::Vector<kj::StringPtr> names;  // each once
  bool merged = false;              // `nodes`
  kj::StringPtr one;                // empty: this machine

  Targets(GrpcCall& call, const Entry& entry) {
    kj::HashSet<kj::StringPtr> known;
    for (kj::StringPtr name : call.metadata("nodes")) {
      check(name);
      if (known.contains(name)) continue;
      known.insert(name);
      names.add(name);
    }
    auto single = call.metadata("node");
    merged = names.size() > 0;
    bool plain = entry.answer == Answer::kPlain || entry.answer == Answer::kPlainItems;
    if (plain && merged) {
      fail(ErrorKind::kInvalidArgument,
           kj::str(entry.path, " is asked of one node; use the metadata \"node\""));
    }
    if (single.size() > 1 || (merged && single.size() > 0)) {
      fail(ErrorKind::kInvalidArgument, "the metadata \"node\" names one node; use \"nodes\"");
    }
    if (names.size() > kMostNodes) {
      fail(ErrorKind::kInvalidArgument,
           kj::str("a call names at most ", kMostNodes, " nodes, not ", names.size()));
    }
    if (single.size() > 0) one = single[0];
    for (auto& name : single) check(name);
  }

 private:
  static void check(kj::StringPtr name) {
    if (name.size() == 0) fail(ErrorKind::kInvalidArgument, "the metadata names an empty node");
  }
};

}  // namespace

class Edge::Handler final : public grpc::GrpcHandler {
 public:
  Handler(const Edge& edge, kj::Timer& timer, rpc::Cluster::Client cluster,
          kj::Own<Budget::Account> account)
      : edge(edge), timer(timer), cluster(kj::mv(cluster)), account(kj::mv(account)) {}

  kj::Promise<GrpcStatus> call(GrpcCall& call) override {
    KJ_IF_MAYBE (entry, edge.byPath.find(call.path())) {
      const Entry& found = **entry;
      return answer(call, found).catch_([&found](kj::Exception&& problem) {
        return statusOf(found, problem);
      });
    }
    return error(ErrorKind::kUnimplemented, kj::str("this node has no method ", call.path()));
  }

 private:
  const Edge& edge;
  kj::Timer& timer;
  rpc::Cluster::Client cluster;
  kj::Own<Budget::Account> account;  // or null

  kj::Promise<GrpcStatus> answer(GrpcCall& call, const Entry& entry) {
    Targets targets(call, entry);
    if (entry.wide.get() != nullptr) co_return co_await answerWide(call, entry, targets);
    auto request = co_await call.receive();
    if (request == nullptr) fail(ErrorKind::kInvalidArgument, "the call has no request");
    auto& message = KJ_ASSERT_NONNULL(request);
    if (entry.answer != Answer::kMerged && entry.answer != Answer::kPlain) call.begin();
    Merger merger(targets.names);
    if (targets.merged) {
      auto asked = kj::heapArrayBuilder<kj::Promise<void>>(targets.names.size());
      for (size_t i = 0; i < targets.names.size(); ++i) {
        asked.add(askOne(call, entry, targets.names[i], message, merger, i));
      }
      co_await kj::joinPromisesFailFast(asked.finish());
    } else {
      NodeOutput output(call, entry, nullptr, merger, 0);
      co_await entry.method->ask(node(targets.one), message, output);
    }
    if (entry.answer == Answer::kMerged) co_await call.send(merger.finish());
    co_return GrpcStatus{};
  }

  kj::Promise<GrpcStatus> answerWide(GrpcCall& call, const Entry& entry, const Targets& targets) {
    if (targets.names.size() > 1) {
      fail(ErrorKind::kInvalidArgument,
           kj::str(entry.path, " is for one node, not for ", targets.names.size()));
    }
    if (entry.answer != Answer::kMerged) call.begin();
    Messages messages(call);
    Merger merger(targets.names);
    auto name = targets.merged ? targets.names[0] : targets.one;
    NodeOutput output(call, entry, targets.merged ? kj::Maybe<kj::StringPtr>(name) : nullptr,
                      merger, 0);
    kj::Maybe<kj::Exception> problem;
    try {
      kj::Maybe<Budget::Account&> its;
      if (account.get() != nullptr) its = *account;
      co_await entry.wide->ask(node(name), {cluster, timer, its}, messages, output);
    } catch (...) {
      problem = kj::getCaughtExceptionAsKj();
    }
    KJ_IF_MAYBE (p, problem) {
      if (!targets.merged) kj::throwFatalException(kj::mv(*p));
      co_await output.sendProblem(kj::mv(*p));
    }
    if (entry.answer == Answer::kMerged) co_await call.send(merger.finish());
    co_return GrpcStatus{};
  }

  // One of several: what fails is an answer, and so is that the account has nothing left, before
  // there is a copy of the request. Each begins in a turn of the loop of its own.
  kj::Promise<void> askOne(GrpcCall& call, const Entry& entry, kj::StringPtr name, Bytes request,
                           Merger& merger, size_t index) {
    NodeOutput output(call, entry, name, merger, index);
    kj::Maybe<kj::Exception> problem;
    try {
      co_await kj::evalLater([]() {});
      kj::Maybe<Budget::Account::Hold> hold;
      if (account.get() != nullptr) hold = account->hold(request.size());
      auto asking = entry.method->ask(node(name), request, output);
      if (entry.answer == Answer::kMerged) {
        // What the others have said must not be lost by one who says nothing.
        asking = asking.exclusiveJoin(call.nearDeadline().then([&merger, index]() {
          if (merger.answered(index)) return;
          fail(ErrorKind::kDeadlineExceeded, "no answer within the time of the call");
        }));
      }
      co_await asking;
    } catch (...) {
      problem = kj::getCaughtExceptionAsKj();
    }
    KJ_IF_MAYBE (p, problem) co_await output.sendProblem(kj::mv(*p));
    merger.over(index);
  }

  rpc::Node::Client node(kj::StringPtr address) {
    auto request = cluster.nodeRequest();
    request.setAddress(address);
    return request.send().getNode();
  }
};

Edge::Edge() : all(allMethods(resources)) {
  for (auto& entry : all) byPath.insert(entry.path, &entry);
}

kj::Own<grpc::GrpcHandler> Edge::open(kj::Timer& timer, rpc::Cluster::Client cluster,
                                      kj::Own<Budget::Account> account) const {
  return kj::heap<Handler>(*this, timer, kj::mv(cluster), kj::mv(account));
}

}  // namespace talos::edge
