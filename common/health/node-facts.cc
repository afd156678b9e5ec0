#include "common/health/node-facts.h"

#include "common/base/error.h"
#include "common/base/within.h"

namespace talos {

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
    auto answers = co_await within(timer, deadline, askNode(kj::mv(node)), kj::mv(late));
    NodeFacts facts{.node = kj::mv(name),
                    .silence = nullptr,
                    .version = answers->version,
                    .status = answers->status,
                    .services = answers->services.getServices(),
                    .held = {}};
    facts.held = kj::mv(answers);
    co_return kj::mv(facts);
  } catch (...) {
    co_return silentFacts(name, messageOf(kj::getCaughtExceptionAsKj()));
  }
}

}  // namespace talos
