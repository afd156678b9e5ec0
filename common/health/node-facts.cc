#include "common/health/node-facts.h"

#include "common/base/error.h"
#include "common/base/resource.h"
#include "common/base/within.h"
#include "rpc/kubernetes-resources.capnp.h"

namespace talos {
namespace {

constexpr kj::StringPtr kApiServer = "kube-apiserver"_kj;

// Never rejects. A node of this version has a config of its API server, an older one of none.
kj::Promise<kj::Vector<kj::String>> disabledComponents(rpc::Node::Client node) {
  kj::Vector<kj::String> disabled;
  try {
    auto request = node.resourcesRequest().send().getResources().listRequest();
    request.initKind().setType(typeName<rpc::SecretStatusSpec>());
    auto answer = co_await request.send();
    bool saysSo = false;
    for (auto resource : answer.getResources()) {
      ResourceOf<rpc::SecretStatusSpec> status(resource);
      bool hasConfig = status.getConfigVersion() > 0;
      if (status.id() == kApiServer) saysSo = hasConfig;
      if (!hasConfig) disabled.add(kj::str(status.id()));
    }
    if (!saysSo) disabled.clear();
  } catch (...) {
    disabled.clear();
  }
  co_return kj::mv(disabled);
}

// Returns false for a node that does not say so, as one without a config.
kj::Promise<bool> isUnregistered(rpc::Node::Client node) {
  auto request = node.resourcesRequest().send().getResources().getRequest();
  request.initKind().setType("NodeSpecs.kubernetes.talos.dev");
  request.setId("node");
  return kj::Promise<capnp::Response<rpc::Resources::GetResults>>(request.send())
      .then(
          [](capnp::Response<rpc::Resources::GetResults>&& found) {
            return found.getResource().getSpec().getAs<rpc::NodeSpecSpec>().getUnregistered();
          },
          [](kj::Exception&&) { return false; });
}

struct AllAnswers {
  kj::Own<FactAnswers> facts;
  bool unregistered;
};
kj::Promise<AllAnswers> askAll(rpc::Node::Client node) {
  auto unregistered = isUnregistered(node);
  auto facts = co_await askNode(kj::mv(node));
  co_return AllAnswers{kj::mv(facts), co_await unregistered};
}

}  // namespace

kj::Promise<kj::Own<FactAnswers>> askNode(rpc::Node::Client node) {
  auto machine = node.machineRequest().send().getMachine();
  auto version = machine.versionRequest().send();
  auto status = machine.statusRequest().send();
  auto services = node.servicesRequest().send().getServices().listRequest().send();
  auto v = co_await version;
  auto s = co_await status;
  auto l = co_await services;
  co_return kj::heap<FactAnswers>(kj::mv(v), kj::mv(s), kj::mv(l));
}

NodeFacts silentFacts(kj::StringPtr name, kj::StringPtr error) {
  return {.node = kj::str(name),
          .silence = kj::str(error),
          .version = {},
          .status = {},
          .services = {},
          .held = {}};
}

kj::Promise<NodeFacts> factsOf(kj::Timer& timer, rpc::Node::Client node, kj::String name,
                               kj::Duration deadline, kj::String late) {
  try {
    auto components = disabledComponents(node);
    auto all = co_await within(timer, deadline, askAll(kj::mv(node)), kj::str(late));
    auto answers = kj::mv(all.facts);
    NodeFacts facts{.node = kj::mv(name),
                    .silence = nullptr,
                    .version = answers->version,
                    .status = answers->status,
                    .services = answers->services.getServices(),
                    .held = {},
                    .unregistered = all.unregistered};
    facts.held = kj::mv(answers);
    facts.disabled = co_await within(timer, deadline, kj::mv(components), kj::mv(late));
    co_return kj::mv(facts);
  } catch (...) {
    co_return silentFacts(name, messageOf(kj::getCaughtExceptionAsKj()));
  }
}

}  // namespace talos
