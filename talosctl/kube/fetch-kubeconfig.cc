#include "talosctl/kube/fetch-kubeconfig.h"

namespace talos::talosctl {

kj::Promise<kube::ReceivedKubeconfig> fetchKubeconfig(Client& client, kj::StringPtr node,
                                                      kj::Duration deadline) {
  auto asked = client.node(node).machineRequest().send().getMachine().kubeconfigRequest().send();
  using Answer = capnp::Response<rpc::Machine::KubeconfigResults>;
  return within(client.deps.timer, deadline, kj::Promise<Answer>(kj::mv(asked)))
      .then([](Answer&& answer) {
        pki::Pem text(kj::str(answer.getKubeconfig().asChars()));
        return kube::readReceivedKubeconfig(text, "the kubeconfig from this node");
      })
      .catch_([node = kj::str(node.size() > 0 ? node : client.endpoint())](
                  kj::Exception&& e) -> kj::Promise<kube::ReceivedKubeconfig> {
        return error(kindOf(e), kj::str(node, ": ", messageOf(e)));
      });
}

}  // namespace talos::talosctl
