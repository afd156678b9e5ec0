// The cluster of a rolling upgrade: its nodes, each by its own address through the endpoints of the
// client, etcd and Kubernetes as the control plane's nodes see them.
//
// Connections go through nodes that restart, so each survey makes one of its own, and those that
// follow a node are dropped when it does not answer.
#pragma once

#include <kj/map.h>

#include "common/base/url-secrets.h"
#include "talosctl/client/cluster-client.h"
#include "talosctl/upgrade-cluster/rolling-run.h"
#include "talosctl/upgrade/image-file.h"

namespace talos::talosctl {

// How a user names an image: docs/upgrades.md.
struct ImageSource {
  ImageName name;
  kj::Maybe<kj::Own<ImageFile>> file;  // that is sent
};

class RemoteNodes final : public RollingCluster {
 public:
  // `call` and `source` outlive it. `kubernetes`: it lists the nodes; else `nodes` are all of them.
  // 0 s: the node's own health timeout.
  RemoteNodes(Invocation& call, ImageSource& source, kj::ArrayPtr<const kj::String> nodes,
              bool kubernetes, unsigned healthTimeoutS);

  kj::Promise<ClusterSurvey> survey() override;
  kj::Promise<Look> look(kj::StringPtr node, kj::StringPtr before) override;
  kj::Promise<FetchOutcome> fetch(kj::StringPtr node, const TargetImage& target, bool keep,
                                  Fetched progress) override;
  kj::Promise<kj::String> upgrade(kj::StringPtr node, const TargetImage& target) override;
  kj::Promise<void> forfeit(kj::StringPtr node) override;

 private:
  Invocation& call;
  ImageSource& source;
  kj::Vector<kj::String> addresses;     // of the newest survey
  kj::Vector<kj::String> controlPlane;  // whom Kubernetes and etcd are asked of, the newest first
  kj::Vector<kj::String> cannotFetch;   // nodes of older systems
  bool kubernetes;
  unsigned healthTimeoutS;
  kj::TreeMap<kj::String, kj::Own<Client>> followers;

  kj::Own<Client> newClient();
  kj::Promise<KubernetesSurvey> askKubernetes(Client& client);
  kj::Promise<EtcdSurvey> askEtcd(Client& client);
  kj::Promise<FetchOutcome> fetchOnce(Client& client, kj::StringPtr node, const TargetImage& target,
                                      bool keep);
  kj::Promise<void> showFetch(Client& client, kj::StringPtr node, Fetched& progress);
  kj::String imageFor(const TargetImage& target) const;
};

}  // namespace talos::talosctl
