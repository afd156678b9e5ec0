#include "talosctl/configure/gen-config-on-node.h"

#include "common/base/error.h"
#include "common/config/talosconfig.h"
#include "common/memory/zeroize.h"
#include "rpc/configuration.capnp.h"
#include "talosctl/client/cluster-client.h"

namespace talos::talosctl {

namespace {

kj::String take(capnp::List<rpc::GeneratedFile>::Reader documents, kj::StringPtr name) {
  for (auto document : documents) {
    if (document.getName() == name) return kj::heapString(document.getContent().asChars());
  }
  fail(ErrorKind::kInternal, kj::str("the node did not generate ", name));
}

void checkFlags(Invocation& call) {
  for (auto flag : {"talos-version", "registry-mirror", "persist", "with-secrets", "with-docs",
                    "with-examples"}) {
    if (call.given(flag)) {
      failUsage(
          kj::str("--", flag, " cannot be used with --insecure: the node generates the configs"));
    }
  }
}

}  // namespace

kj::Promise<config::Generated> generateOnNode(Invocation& call, kj::StringPtr installImage) {
  checkFlags(call);
  auto session = co_await openSession(call);
  auto generate =
      session->client.node("").configurationRequest().send().getConfiguration().generateRequest();
  auto request = generate.initRequest();
  request.setClusterName(call.arguments[0]);
  request.setEndpoint(call.arguments[1]);
  request.setInstallDisk(call.text("install-disk"));
  request.setInstallImage(installImage);
  request.setKubernetesVersion(call.text("kubernetes-version"));
  request.setDnsDomain(call.text("dns-domain"));
  auto names = call.list("additional-sans");
  auto list = request.initAdditionalSans(names.size());
  for (size_t i = 0; i < names.size(); ++i) list.set(i, names[i]);
  kj::Promise<capnp::Response<rpc::Configuration::GenerateResults>> answer = generate.send();
  auto response = co_await within(call.deps.timer, session->deadline, kj::mv(answer));
  auto documents = response.getDocuments();
  auto talosconfig = take(documents, "talosconfig");
  KJ_DEFER(zeroize(talosconfig));
  auto identity =
      Talosconfig::parseReceived(talosconfig, "the talosconfig from the node", call.arguments[0]);
  co_return config::Generated{take(documents, "init.yaml"), take(documents, "controlplane.yaml"),
                              take(documents, "join.yaml"), identity.toYaml()};
}

}  // namespace talos::talosctl
