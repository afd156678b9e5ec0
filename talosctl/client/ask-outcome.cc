#include "talosctl/client/ask-outcome.h"

namespace talos::talosctl {

kj::Promise<Judgement> judge(Client& client, kj::StringPtr name, Outcome& outcome,
                             kj::Duration deadline) {
  co_await client.connect(deadline);
  auto node = client.node(name);
  auto machine = node.machineRequest().send().getMachine();
  auto version = machine.versionRequest().send();
  auto status = machine.statusRequest().send();
  auto services = node.servicesRequest().send().getServices().listRequest().send();
  auto v = co_await version;
  auto s = co_await status;
  auto l = co_await services;
  co_return outcome.answered(v, s, l.getServices());
}

}  // namespace talos::talosctl
