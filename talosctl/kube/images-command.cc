// images, image default
#include <kj/debug.h>

#include "common/base/version.h"
#include "common/config/config-generate.h"
#include "common/config/kubernetes/kubernetes-images.h"
#include "talosctl/kube/kube-commands.h"

namespace talos::talosctl {
namespace {

kj::Promise<int> runClusterImages(Invocation& call) {
  for (auto& image : clusterImages()) call.out(kj::str(image, "\n"));
  co_return 0;
}

}  // namespace

kj::Array<kj::String> clusterImages() {
  using config::KubernetesPart, config::kubernetesImage;
  return kj::arr(kj::str(config::kFlannelImage), kj::str(config::kInstallCniImage),
                 kj::str(config::kCoreDnsImage), kubernetesImage(KubernetesPart::kApiServer),
                 kubernetesImage(KubernetesPart::kControllerManager),
                 kubernetesImage(KubernetesPart::kScheduler),
                 kubernetesImage(KubernetesPart::kProxy), kubernetesImage(KubernetesPart::kKubelet),
                 installerImage(), kj::str(config::kPauseImage));
}

void addImagesCommand(Command& root) {
  auto& command = root.add("images", "Print the images that a cluster pulls by default");
  command.details =
      "Prints one image a line, for a registry that mirrors them. Calls no node. etcd is not "
      "listed: "
      "it is part of the system, unless cluster.etcd.image names one.";
  command.run = runClusterImages;
  auto& defaults = KJ_ASSERT_NONNULL(root.child("image")).add("default", "The same as \"images\"");
  defaults.run = runClusterImages;
}

}  // namespace talos::talosctl
