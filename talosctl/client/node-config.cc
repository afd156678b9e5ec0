#include "talosctl/client/node-config.h"

#include "common/base/resource.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::talosctl {

kj::Promise<RunningConfig> runningConfig(rpc::Node::Client node, kj::StringPtr nameSpace,
                                         kj::StringPtr id) {
  auto request = node.sensitiveResourcesRequest().send().getResources().getRequest();
  auto kind = request.initKind();
  kind.setNamespace(nameSpace);
  kind.setType(typeName<rpc::MachineConfigSpec>());
  request.setId(id);
  auto answer = co_await request.send();
  auto resource = answer.getResource();
  co_return RunningConfig{kj::str(resource.getSpec().getAs<rpc::MachineConfigSpec>().getDocument()),
                          resource.getMetadata().getVersion()};
}

ApplyCall applyCall(rpc::Node::Client node, kj::StringPtr document, uint64_t version,
                    rpc::ApplyMode mode, bool dryRun) {
  auto call = node.configurationRequest().send().getConfiguration().applyRequest();
  auto request = call.initRequest();
  request.setDocument(document.asBytes());
  request.setIfVersion(version);
  request.setMode(mode);
  request.setDryRun(dryRun);
  return call;
}

}  // namespace talos::talosctl
