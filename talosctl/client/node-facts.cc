#include "talosctl/client/node-facts.h"

namespace talos::talosctl {

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
    KJ_IF_MAYBE (error, unreached) {
      all.add(silentFacts(node, *error));
    } else {
      all.add(factsOf(client.deps.timer, client.node(node), kj::str(node), deadline,
                      noAnswerWithin(deadline)));
    }
  }
  co_return co_await kj::joinPromises(all.finish());
}

}  // namespace talos::talosctl
