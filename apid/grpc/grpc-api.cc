#include "apid/grpc/grpc-api.h"

#include <kj/map.h>

#include "apid/grpc/method-table.h"
#include "common/base/waits.h"
#include "common/wire/request-id.h"

namespace talos::grpcapi {
namespace {

using grpc::GrpcCall;
using grpc::GrpcStatus;

// The nodes that the call's metadata names.
struct Targets {
  kj::Vector<kj::StringPtr> names;  // each once
  bool merged = false;              // `nodes`
  kj::StringPtr one;                // empty: this node

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
           kj::str(entry.path, " is for one node; use the metadata \"node\""));
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

class GrpcApi::Handler final : public grpc::GrpcHandler {
 public:
  Handler(const GrpcApi& api, kj::Timer& timer, rpc::Cluster::Client cluster,
          kj::Own<Budget::Account> account, kj::Own<CallObserver> observer)
      : api(api),
        timer(timer),
        cluster(kj::mv(cluster)),
        account(kj::mv(account)),
        observer(kj::mv(observer)) {}

  kj::Promise<GrpcStatus> call(GrpcCall& call) override {
    KJ_IF_MAYBE (entry, api.byPath.find(call.path())) {
      const Entry& found = **entry;
      auto observed = kj::heap<ObservedCall>(*this, found.path, requestOf(call));
      auto& result = observed->result;
      return answer(call, found)
          .then(
              [&result](GrpcStatus&& status) {
                result = CallObserver::kOk;
                return kj::mv(status);
              },
              [&result, &found](kj::Exception&& problem) {
                result = nameOf(kindOf(problem));
                return statusOf(found, problem);
              })
          .attach(kj::mv(observed));
    }
    return error(ErrorKind::kUnimplemented, kj::str("this node has no method ", call.path()));
  }

 private:
  const GrpcApi& api;
  kj::Timer& timer;
  rpc::Cluster::Client cluster;
  kj::Own<Budget::Account> account;  // nullptr: not charged
  kj::Own<CallObserver> observer;    // nullptr: not observed

  // Reports a call when it has ended, including a dropped call.
  struct ObservedCall {
    Handler& handler;
    kj::StringPtr path;
    kj::TimePoint began;
    kj::StringPtr result = CallObserver::kCancelled;

    Wait wait;

    ObservedCall(Handler& handler, kj::StringPtr path, kj::StringPtr request)
        : handler(handler),
          path(path),
          began(handler.timer.now()),
          wait(kj::str("call ", path, request.size() > 0 ? ", request " : "", request)) {}
    ~ObservedCall() noexcept(false) {
      if (handler.observer.get() == nullptr) return;
      handler.observer->ended(path, result, handler.timer.now() - began);
    }
    KJ_DISALLOW_COPY_AND_MOVE(ObservedCall);
  };

  kj::Maybe<Budget::Account&> charged() {
    if (account.get() == nullptr) return nullptr;
    return *account;
  }

  kj::Promise<GrpcStatus> answer(GrpcCall& call, const Entry& entry) {
    Targets targets(call, entry);
    if (entry.streamMethod.get() != nullptr) co_return co_await answerStream(call, entry, targets);
    auto request = co_await call.receive();
    if (request == nullptr) fail(ErrorKind::kInvalidArgument, "the call has no request");
    auto& message = KJ_ASSERT_NONNULL(request);
    if (entry.answer != Answer::kMerged && entry.answer != Answer::kPlain) call.begin();
    MergedAnswer merged(targets.names, charged());
    if (targets.merged) {
      auto asked = kj::heapArrayBuilder<kj::Promise<void>>(targets.names.size());
      for (size_t i = 0; i < targets.names.size(); ++i) {
        asked.add(askOne(call, entry, targets.names[i], message, merged, i));
      }
      co_await kj::joinPromisesFailFast(asked.finish());
    } else {
      Output output(call, entry, targets.one, false, merged, 0, charged());
      co_await entry.method->ask(node(call, targets.one), message, output);
    }
    if (entry.answer == Answer::kMerged) co_await call.send(merged.finish());
    co_return GrpcStatus{};
  }

  kj::Promise<GrpcStatus> answerStream(GrpcCall& call, const Entry& entry, const Targets& targets) {
    if (targets.names.size() > 1) {
      fail(ErrorKind::kInvalidArgument,
           kj::str(entry.path, " is for one node, not for ", targets.names.size()));
    }
    if (entry.answer != Answer::kMerged) call.begin();
    RequestStream messages(call);
    MergedAnswer merged(targets.names, charged());
    auto name = targets.merged ? targets.names[0] : targets.one;
    Output output(call, entry, name, targets.merged, merged, 0, charged());
    kj::Maybe<kj::Exception> problem;
    try {
      CallContext context{
          .cluster = cluster, .timer = timer, .account = charged(), .request = requestOf(call)};
      co_await entry.streamMethod->ask(node(call, name), kj::mv(context), messages, output);
    } catch (...) {
      problem = kj::getCaughtExceptionAsKj();
    }
    KJ_IF_MAYBE (p, problem) {
      if (!targets.merged) kj::throwFatalException(kj::mv(*p));
      co_await output.sendProblem(kj::mv(*p));
    }
    if (entry.answer == Answer::kMerged) co_await call.send(merged.finish());
    co_return GrpcStatus{};
  }

  // Calls one of several nodes: an error is part of the answer, and so is an exhausted account,
  // which is charged before the request is copied. Each call starts in a separate turn of the loop.
  kj::Promise<void> askOne(GrpcCall& call, const Entry& entry, kj::StringPtr name, Bytes request,
                           MergedAnswer& merged, size_t index) {
    Output output(call, entry, name, true, merged, index, charged());
    kj::Maybe<kj::Exception> problem;
    try {
      co_await kj::evalLater([]() {});
      kj::Maybe<Budget::Account::Hold> hold;
      if (account.get() != nullptr) hold = account->hold(request.size());
      auto asking = entry.method->ask(node(call, name), request, output);
      if (entry.answer == Answer::kMerged) {
        // A silent node must not let the deadline expire before the answers of the others are sent.
        asking = asking.exclusiveJoin(call.nearDeadline().then([&merged, index]() {
          if (merged.answered(index)) return;
          fail(ErrorKind::kDeadlineExceeded, "no answer within the time of the call");
        }));
      }
      co_await asking;
    } catch (...) {
      problem = kj::getCaughtExceptionAsKj();
    }
    KJ_IF_MAYBE (p, problem) co_await output.sendProblem(kj::mv(*p));
    merged.complete(index);
  }

  // Returns the client's id; empty if it is missing or not valid, because proxies may add one that
  // is not.
  static kj::StringPtr requestOf(const GrpcCall& call) {
    auto given = call.metadata("x-request-id");
    return given.size() == 1 && isRequestId(given[0]) ? kj::StringPtr(given[0]) : ""_kj;
  }

  rpc::Node::Client node(const GrpcCall& call, kj::StringPtr address) {
    auto request = cluster.nodeRequest();
    request.setAddress(address);
    request.setRequest(requestOf(call));
    return request.send().getNode();
  }
};

GrpcApi::GrpcApi() : all(allMethods(resources)) {
  for (auto& entry : all) byPath.insert(entry.path, &entry);
}

kj::Own<grpc::GrpcHandler> GrpcApi::open(kj::Timer& timer, rpc::Cluster::Client cluster,
                                         kj::Own<Budget::Account> account,
                                         kj::Own<CallObserver> observer) const {
  return kj::heap<Handler>(*this, timer, kj::mv(cluster), kj::mv(account), kj::mv(observer));
}

OtherProtocol grpcProtocol(kj::Timer& timer, const GrpcApi& api) {
  return {
      .preface = "PRI ",
      .serve = [&timer, &api](kj::Own<kj::AsyncIoStream> stream,
                              capnp::Capability::Client bootstrap, kj::Promise<void> stop,
                              kj::Own<Budget::Account> account, kj::Own<CallObserver> observer) {
        auto mine = account.get() == nullptr ? kj::Own<Budget::Account>() : kj::addRef(*account);
        auto handler =
            api.open(timer, bootstrap.castAs<rpc::Cluster>(), kj::mv(mine), kj::mv(observer));
        auto serving =
            grpc::serveGrpc(timer, kj::mv(stream), *handler, {}, kj::mv(stop), kj::mv(account));
        return serving.attach(kj::mv(handler));
      }};
}

}  // namespace talos::grpcapi
