// For tests of a node-testbed: the first config of a control-plane node, as its own machined makes
// it.
#pragma once

#include <kj/async.h>
#include <kj/string.h>

#include "rpc/node.capnp.h"

namespace talos::kill {

inline kj::Promise<kj::String> firstConfig(rpc::Node::Client node) {
  auto request = node.configurationRequest().send().getConfiguration().generateRequest();
  request.initRequest().setClusterName("world");
  request.getRequest().setEndpoint("https://10.0.0.1:6443");
  return request.send().then([](auto&& answer) {
    for (auto file : answer.getDocuments()) {
      if (file.getName() == "controlplane.yaml") {
        return kj::heapString(file.getContent().asChars());
      }
    }
    return kj::String();
  });
}

}  // namespace talos::kill
