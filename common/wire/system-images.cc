#include "common/wire/system-images.h"

#include "common/base/error.h"
#include "common/base/resource.h"
#include "rpc/kubernetes-resources.capnp.h"

namespace talos {
namespace {

// Returns an empty text without a kubelet.
kj::Promise<kj::String> kubeletImage(rpc::Node::Client node) {
  auto request = node.resourcesRequest().send().getResources().getRequest();
  request.getKind().setType(typeName<rpc::KubeletSpecSpec>());
  request.setId("kubelet");
  return request.send().then(
      [](auto&& answer) {
        auto spec = answer.getResource().getSpec().template getAs<rpc::KubeletSpecSpec>();
        return kj::str(spec.getImage());
      },
      [](kj::Exception&& e) {
        if (kindOf(e) != ErrorKind::kNotFound) kj::throwFatalException(kj::mv(e));
        return kj::String();
      });
}

}  // namespace

kj::Promise<kj::Maybe<kj::String>> systemImageDigest(
    rpc::Node::Client node, capnp::List<rpc::ContainerImage>::Reader images) {
  auto name = co_await kubeletImage(kj::mv(node));
  if (name.size() > 0) {
    for (auto image : images) {
      if (image.getName() == name) co_return kj::Maybe<kj::String>(kj::str(image.getDigest()));
    }
  }
  co_return kj::Maybe<kj::String>(nullptr);
}

}  // namespace talos
