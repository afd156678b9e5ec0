#include "talosctl/drain/node-removal.h"

#include "common/base/error.h"
#include "talosctl/drain/drain-run.h"

namespace talos::talosctl {

using kube::textAt;

kj::Promise<kj::Own<NodeRemoval>> NodeRemoval::find(kube::KubeClient& kubernetes,
                                                    kj::ArrayPtr<const kj::String> nodes) {
  auto removal = kj::heap<NodeRemoval>(kubernetes, nodes.size());
  auto listed = co_await kubernetes.list(kube::coreResource("nodes", "Node", false));
  for (auto& node : nodes) {
    auto name = nodeNamed(listed.items, node);
    for (auto& object : listed.items) {
      if (textAt(object, {"metadata", "name"}) != name) continue;
      removal->found.add(Found{kj::mv(name), kj::str(textAt(object, {"metadata", "uid"}))});
      break;
    }
  }
  co_return kj::mv(removal);
}

kj::Promise<void> NodeRemoval::remove(size_t index) {
  auto& node = found[index];
  kj::Maybe<kj::Exception> wrong;
  co_await kubernetes
      .remove(kube::coreResource("nodes", "Node", false), "", node.name,
              kube::Version{node.uid, ""})
      .then([](bool) {}, [&](kj::Exception&& e) { wrong = kj::mv(e); });
  KJ_IF_MAYBE (e, wrong) {
    // The object is gone, and another one has its name.
    if (kindOf(*e) == ErrorKind::kConflict) co_return;
    fail(kindOf(*e), kj::str("the node is reset, but its object in Kubernetes was not removed: ",
                             messageOf(*e), "; kubectl delete node ", node.name));
  }
}

}  // namespace talos::talosctl
