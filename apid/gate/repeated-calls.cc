#include "apid/gate/repeated-calls.h"

#include <capnp/message.h>
#include <capnp/schema.h>

#include "common/base/annotation.h"

namespace talos::apid {
namespace {

using capnp::AnyPointer;
using capnp::CallContextHook;
using capnp::ClientHook;
using capnp::MessageSize;
using capnp::PipelineHook;
using capnp::RequestHook;
using PartRequest = capnp::Request<AnyPointer, AnyPointer>;
using PartResponse = capnp::Response<AnyPointer>;

// Limit for a request that is kept for a retry; read-only requests are small.
constexpr size_t kMostKept = 16u << 10;

// Each method of Node has one capability as its result, as machine() does.
using PartResults = rpc::Node::MachineResults;

bool hasCapability(capnp::StructSchema schema) {
  for (auto field : schema.getFields()) {
    if (field.getType().isInterface()) return true;
  }
  return false;
}

// The connection that the parts of a node use, replaced after a loss.
class NodePath final : public kj::Refcounted {
 public:
  NodePath(kj::Own<RepeatableMethods> methods, ConnectedNode first,
           kj::Function<kj::Promise<ConnectedNode>()> connect)
      : methods(kj::mv(methods)), current(kj::mv(first)), connect(kj::mv(connect)) {}

  kj::Own<RepeatableMethods> methods;

  rpc::Node::Client& node() { return current.node; }
  // Calls a method of Node.
  capnp::RemotePromise<AnyPointer> ask(uint16_t method) {
    return current.node.typelessRequest(capnp::typeId<rpc::Node>(), method, nullptr, {}).send();
  }
  // Counts connections.
  unsigned number() const { return count; }
  bool lost(unsigned number) { return number != count || current.lost(); }

  // Resolves when a newer connection than this one exists; callers share the attempt.
  kj::Promise<void> renew(unsigned number) {
    if (number != count) return kj::READY_NOW;
    if (!renewing) {
      renewing = true;
      attempt = kj::evalNow([&]() { return connect(); })
                    .then(
                        [this](ConnectedNode&& fresh) {
                          renewing = false;
                          current = kj::mv(fresh);
                          ++count;
                        },
                        [this](kj::Exception&& e) {
                          renewing = false;
                          kj::throwFatalException(kj::mv(e));
                        })
                    .fork();
    }
    return attempt.addBranch().attach(kj::addRef(*this));
  }

 private:
  ConnectedNode current;
  kj::Function<kj::Promise<ConnectedNode>()> connect;
  unsigned count = 0;
  bool renewing = false;
  kj::ForkedPromise<void> attempt = nullptr;
};

// Stands for a part that a method of Node has returned. Keeps the answer, which counts for the
// client (forwarded-calls.h) as long.
class RepeatingPart final : public ClientHook, public kj::Refcounted {
 public:
  RepeatingPart(kj::Own<NodePath> path, uint16_t method, AnyPointer::Pipeline answer)
      : path(kj::mv(path)),
        method(method),
        answer(kj::mv(answer)),
        part(this->answer.getPointerField(0).asCap()),
        number(this->path->number()) {}

  PartRequest newCall(uint64_t interface, uint16_t method, kj::Maybe<MessageSize> size,
                      CallHints hints) override;
  VoidPromiseAndPipeline call(uint64_t interface, uint16_t method,
                              kj::Own<CallContextHook>&& context, CallHints hints) override;
  kj::Maybe<ClientHook&> getResolved() override { return nullptr; }
  kj::Maybe<kj::Promise<kj::Own<ClientHook>>> whenMoreResolved() override { return nullptr; }
  kj::Own<ClientHook> addRef() override { return kj::addRef(*this); }
  const void* getBrand() override { return &kBrand; }
  kj::Maybe<int> getFd() override { return nullptr; }

  // Returns the part of the newest connection.
  ClientHook& current() {
    if (number != path->number()) {
      answer = path->ask(method);
      part = answer.getPointerField(0).asCap();
      number = path->number();
    }
    return *part;
  }

  kj::Own<NodePath> path;

 private:
  static constexpr char kBrand = 0;
  const uint16_t method;  // method of Node
  AnyPointer::Pipeline answer;
  kj::Own<ClientHook> part;
  unsigned number;  // number of its connection
};

class RepeatingRequest final : public RequestHook {
 public:
  RepeatingRequest(PartRequest request, RepeatingPart& part, uint64_t interface, uint16_t method)
      : params(request),
        inner(RequestHook::from(kj::mv(request))),
        part(kj::addRef(part)),
        number(part.path->number()),
        interface(interface),
        method(method) {}

  capnp::RemotePromise<AnyPointer> send() override {
    auto reader = params.asReader();
    if (reader.targetSize().wordCount * sizeof(capnp::word) > kMostKept) return inner->send();
    auto kept = kj::heap<capnp::MallocMessageBuilder>();
    kept->setRoot(reader);
    auto sent = inner->send();
    auto pipeline = PipelineHook::from(kj::mv(sent));
    auto answer = sent.catch_(
        [part = kj::addRef(*part), number = number, interface = interface, method = method,
         kept = kj::mv(kept)](kj::Exception&& e) mutable -> kj::Promise<PartResponse> {
          if (!part->path->lost(number)) return kj::mv(e);
          return part->path->renew(number).then(
              [part = kj::mv(part), interface, method,
               kept = kj::mv(kept)]() mutable -> kj::Promise<PartResponse> {
                auto again = part->current().newCall(interface, method, nullptr, {});
                again.set(kept->getRoot<AnyPointer>().asReader());
                return again.send();
              });
        });
    return capnp::RemotePromise<AnyPointer>(kj::mv(answer), AnyPointer::Pipeline(kj::mv(pipeline)));
  }
  kj::Promise<void> sendStreaming() override { return inner->sendStreaming(); }
  AnyPointer::Pipeline sendForPipeline() override { return inner->sendForPipeline(); }
  const void* getBrand() override { return nullptr; }

 private:
  AnyPointer::Builder params;
  kj::Own<RequestHook> inner;
  kj::Own<RepeatingPart> part;
  unsigned number;  // number of the connection
  uint64_t interface;
  uint16_t method;
};

PartRequest RepeatingPart::newCall(uint64_t interface, uint16_t method, kj::Maybe<MessageSize> size,
                                   CallHints hints) {
  auto request = current().newCall(interface, method, size, hints);
  if (!path->methods->includes(interface, method)) return request;
  AnyPointer::Builder params = request;
  return PartRequest(params, kj::heap<RepeatingRequest>(kj::mv(request), *this, interface, method));
}

ClientHook::VoidPromiseAndPipeline RepeatingPart::call(uint64_t interface, uint16_t method,
                                                       kj::Own<CallContextHook>&& context,
                                                       CallHints hints) {
  if (!path->methods->includes(interface, method) || hints.onlyPromisePipeline) {
    return current().call(interface, method, kj::mv(context), hints);
  }
  try {
    auto params = context->getParams();
    auto request = newCall(interface, method, params.targetSize(), hints);
    request.set(params);
    context->releaseParams();
    return context->directTailCall(RequestHook::from(kj::mv(request)));
  } catch (...) {
    auto failure = kj::getCaughtExceptionAsKj();
    return {kj::cp(failure), capnp::newBrokenPipeline(kj::mv(failure))};
  }
}

// All methods of Node are reads without parameters.
class RepeatingNode final : public capnp::Capability::Server {
 public:
  explicit RepeatingNode(kj::Own<NodePath> path) : path(kj::mv(path)) {}

  DispatchCallResult dispatchCall(uint64_t interface, uint16_t method,
                                  capnp::CallContext<AnyPointer, AnyPointer> context) override {
    auto methods = capnp::Schema::from<rpc::Node>().getMethods();
    if (interface != capnp::typeId<rpc::Node>() || method >= methods.size()) {
      auto request = path->node().typelessRequest(interface, method, nullptr, {});
      request.set(context.getParams());
      return {context.tailCall(kj::mv(request)), false, true};
    }
    auto number = path->number();
    auto sent = path->ask(method);
    capnp::Capability::Client part(
        kj::refcounted<RepeatingPart>(kj::addRef(*path), method, kj::mv(sent)));
    capnp::PipelineBuilder<PartResults> early;
    early.setMachine(part.castAs<rpc::Machine>());
    context.setPipeline(AnyPointer::Pipeline(PipelineHook::from(early.build())));
    auto answered =
        sent.ignoreResult().catch_([this, number, method](kj::Exception&& e) -> kj::Promise<void> {
          if (!path->lost(number)) return kj::mv(e);
          return path->renew(number).then(
              [this, method]() { return path->ask(method).ignoreResult(); });
        });
    return {answered.then([context, part]() mutable {
              context.getResults().initAs<PartResults>().setMachine(part.castAs<rpc::Machine>());
            }),
            false, true};
  }

 private:
  kj::Own<NodePath> path;
};

}  // namespace

RepeatableMethods::RepeatableMethods() {
  for (auto part : capnp::Schema::from<rpc::Node>().getMethods()) {
    for (auto field : part.getResultType().getFields()) {
      auto interface = field.getType().asInterface();
      auto repeated = KJ_MAP(method, interface.getMethods()) {
        return !annotation::has(method, annotation::kAudit) &&
               !hasCapability(method.getParamType()) && !hasCapability(method.getResultType());
      };
      byInterface.upsert(interface.getProto().getId(), kj::mv(repeated), [](auto&, auto&&) {});
    }
  }
}

bool RepeatableMethods::includes(uint64_t interface, uint16_t method) const {
  KJ_IF_MAYBE (methods, byInterface.find(interface)) {
    return method < methods->size() && (*methods)[method];
  }
  return false;
}

rpc::Node::Client repeatingNode(kj::Own<RepeatableMethods> methods, ConnectedNode first,
                                kj::Function<kj::Promise<ConnectedNode>()> connect) {
  capnp::Capability::Client node(kj::heap<RepeatingNode>(
      kj::refcounted<NodePath>(kj::mv(methods), kj::mv(first), kj::mv(connect))));
  return node.castAs<rpc::Node>();
}

}  // namespace talos::apid
