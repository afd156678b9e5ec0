#include "talosctl/client/node-facts.h"

namespace talos::talosctl {

kj::Promise<kj::Own<FactAnswers>> askNode(Client& client, kj::StringPtr name) {
  auto node = client.node(name);
  auto machine = node.machineRequest().send().getMachine();
  auto version = machine.versionRequest().send();
  auto status = machine.statusRequest().send();
  auto services = node.servicesRequest().send().getServices().listRequest().send();
  auto v = co_await version;
  auto s = co_await status;
  auto l = co_await services;
  co_return kj::heap<FactAnswers>(kj::mv(v), kj::mv(s), kj::mv(l));
}

namespace {

kj::Promise<NodeFacts> factsOf(Client& client, kj::StringPtr name, kj::Duration deadline) {
  NodeFacts facts{.node = kj::str(name),
                  .silence = nullptr,
                  .version = {},
                  .status = {},
                  .services = {},
                  .held = {}};
  try {
    auto answers = co_await within(client.deps.timer, deadline, askNode(client, name));
    facts.version = answers->version;
    facts.status = answers->status;
    facts.services = answers->services.getServices();
    facts.held = kj::mv(answers);
  } catch (...) {
    facts.silence = messageOf(kj::getCaughtExceptionAsKj());
  }
  co_return kj::mv(facts);
}

}  // namespace

kj::Promise<kj::Array<NodeFacts>> askFacts(Client& client, kj::ArrayPtr<const kj::String> nodes,
                                           kj::Duration deadline) {
  kj::Maybe<kj::String> unreached;
  try {
    co_await client.connect(deadline);
  } catch (...) {
    unreached = messageOf(kj::getCaughtExceptionAsKj());
  }
  auto all = kj::heapArrayBuilder<kj::Promise<NodeFacts>>(nodes.size());
  for (auto& node : nodes) {
    KJ_IF_MAYBE (why, unreached) {
      all.add(NodeFacts{.node = kj::str(node),
                        .silence = kj::str(*why),
                        .version = {},
                        .status = {},
                        .services = {},
                        .held = {}});
    } else {
      all.add(factsOf(client, node, deadline));
    }
  }
  co_return co_await kj::joinPromises(all.finish());
}

}  // namespace talos::talosctl
