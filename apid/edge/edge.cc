#include "apid/edge/edge.h"

#include <kj/debug.h>

#include "apid/edge/methods.h"

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
  // Scripts match this text.
  if (status.code == kPermissionDenied) {
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

// A merged answer: its parts in the order of the nodes.
class Merger {
 public:
  explicit Merger(size_t nodes) : parts(kj::heapArray<kj::Maybe<kj::Array<kj::byte>>>(nodes)) {}

  void add(size_t index, kj::Array<kj::byte> part) {
    auto all = size + part.size();
    if (all > kMostMerged) {
      fail(ErrorKind::kResourceExhausted,
           kj::str("the answers of all nodes are ", all, " bytes, and ", kMostMerged,
                   " is what a client takes; ask fewer nodes at once"));
    }
    if (parts[index] != nullptr) fail(ErrorKind::kInternal, "a node has answered twice");
    size = all;
    parts[index] = kj::mv(part);
  }
  kj::Array<kj::byte> finish() const {
    WireWriter out;
    for (auto& entry : parts) {
      KJ_IF_MAYBE (part, entry) out.bytes(1, *part);
    }
    return out.finish();
  }

 private:
  size_t size = 0;
  kj::Array<kj::Maybe<kj::Array<kj::byte>>> parts;
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
    WireWriter out;
    writeMetadata(out, node.orDefault(""), &status);
    return pass(out.finish());
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

// What the call's metadata says of where it goes.
struct Targets {
  kj::ArrayPtr<const kj::String> names;
  bool merged = false;  // `nodes`
  kj::StringPtr one;    // empty: this machine

  Targets(GrpcCall& call, const Entry& entry) : names(call.metadata("nodes")) {
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
    for (auto& name : names) check(name);
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
  Handler(const Edge& edge, rpc::Cluster::Client cluster) : edge(edge), cluster(kj::mv(cluster)) {}

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
  rpc::Cluster::Client cluster;

  kj::Promise<GrpcStatus> answer(GrpcCall& call, const Entry& entry) {
    Targets targets(call, entry);
    auto request = co_await call.receive();
    if (request == nullptr) fail(ErrorKind::kInvalidArgument, "the call has no request");
    auto& message = KJ_ASSERT_NONNULL(request);
    if (entry.answer != Answer::kMerged && entry.answer != Answer::kPlain) call.begin();
    Merger merger(kj::max(targets.names.size(), size_t(1)));
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

  // One of several: what fails is an answer.
  kj::Promise<void> askOne(GrpcCall& call, const Entry& entry, kj::StringPtr name, Bytes request,
                           Merger& merger, size_t index) {
    NodeOutput output(call, entry, name, merger, index);
    kj::Maybe<kj::Exception> problem;
    try {
      co_await entry.method->ask(node(name), request, output);
    } catch (...) {
      problem = kj::getCaughtExceptionAsKj();
    }
    KJ_IF_MAYBE (p, problem) co_await output.sendProblem(kj::mv(*p));
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

kj::Own<grpc::GrpcHandler> Edge::open(rpc::Cluster::Client cluster) const {
  return kj::heap<Handler>(*this, kj::mv(cluster));
}

}  // namespace talos::edge
