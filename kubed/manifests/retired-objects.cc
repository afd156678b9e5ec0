#include "kubed/manifests/retired-objects.h"

#include "common/base/error.h"

namespace talos::kubed {
namespace {

struct RetiredBinding {
  kj::StringPtr name, role, kind, subject, nameSpace;
};
constexpr RetiredBinding kRetired[] = {
    // Any client with the bootstrap token could become any node. Now kubed approves
    // (kubed/nodes/join-approver.h).
    {"system-bootstrap-approve-node-client-csr"_kj,
     "system:certificates.k8s.io:certificatesigningrequests:nodeclient"_kj, "Group"_kj,
     "system:bootstrappers"_kj, ""_kj},
    // Each pod of kube-system without its own account was an administrator.
    {"system:default-sa"_kj, "cluster-admin"_kj, "ServiceAccount"_kj, "default"_kj,
     "kube-system"_kj},
};

bool isRetired(const RetiredBinding& retired, const kube::Json& binding) {
  auto subjects = kube::itemsAt(binding, {"subjects"});
  if (subjects.size() != 1) return false;
  auto& subject = *subjects[0];
  return kube::textAt(binding, {"roleRef", "name"}) == retired.role &&
         kube::textAt(subject, {"kind"}) == retired.kind &&
         kube::textAt(subject, {"name"}) == retired.subject &&
         kube::textAt(subject, {"namespace"}) == retired.nameSpace;
}

}  // namespace

kj::Promise<void> removeRetired(kube::KubeClient& kubernetes,
                                kj::Function<void(kj::StringPtr)> removed) {
  auto bindings = kube::roleBindings();
  for (auto& retired : kRetired) {
    kj::Maybe<kube::Json> found;
    co_await kubernetes.get(bindings, "", retired.name)
        .then([&](kube::Json binding) { found = kj::mv(binding); },
              [](kj::Exception&& e) {
                if (kindOf(e) != ErrorKind::kNotFound) kj::throwFatalException(kj::mv(e));
              });
    KJ_IF_MAYBE (binding, found) {
      if (!isRetired(retired, *binding)) continue;
      if (co_await kubernetes.remove(bindings, "", retired.name)) removed(retired.name);
    }
  }
}

}  // namespace talos::kubed
