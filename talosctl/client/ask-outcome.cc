#include "talosctl/client/ask-outcome.h"

#include "talosctl/client/node-facts.h"

namespace talos::talosctl {

kj::Promise<Judgement> judge(Client& client, kj::StringPtr name, Outcome& outcome) {
  auto answers = co_await askNode(client.node(name));
  co_return outcome.answered(answers->version, answers->status, answers->services.getServices());
}

}  // namespace talos::talosctl
