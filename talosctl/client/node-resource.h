// Requests resources of a node whose type is known (common/base/resource.h).
#pragma once

#include "common/base/resource.h"
#include "rpc/node.capnp.h"

namespace talos::talosctl {

using ResourceAnswer = capnp::Response<rpc::Resources::GetResults>;
using ResourceListAnswer = capnp::Response<rpc::Resources::ListResults>;

// `sensitive`: with access to resources that hold secrets (role os:admin).
inline rpc::Resources::Client resourcesOf(rpc::Node::Client node, bool sensitive) {
  if (sensitive) return node.sensitiveResourcesRequest().send().getResources();
  return node.resourcesRequest().send().getResources();
}

// Requests one resource. NotFound if the node has no resource with this id.
template <typename Spec>
kj::Promise<ResourceAnswer> getResource(rpc::Node::Client node, kj::StringPtr id,
                                        bool sensitive = false) {
  auto request = resourcesOf(kj::mv(node), sensitive).getRequest();
  request.initKind().setType(typeName<Spec>());
  request.setId(id);
  return request.send();
}

// Requests all resources of the type.
template <typename Spec>
kj::Promise<ResourceListAnswer> listResources(rpc::Node::Client node, bool sensitive = false) {
  auto request = resourcesOf(kj::mv(node), sensitive).listRequest();
  request.initKind().setType(typeName<Spec>());
  return request.send();
}

// Returns the resource of an answer, which must outlive it.
template <typename Spec>
ResourceOf<Spec> resourceIn(const ResourceAnswer& answer) {
  return ResourceOf<Spec>(answer.getResource());
}

}  // namespace talos::talosctl
