// The cluster of a rolling upgrade: its nodes, each called by its own address through the client's
// endpoints, and etcd and Kubernetes as the control-plane nodes report them.
//
// Connections go through nodes that restart. So each survey opens its own connection, and a
// connection that follows a node is dropped when the node does not answer.
#pragma once

#include <kj/map.h>

#include "common/base/url-secrets.h"
#include "talosctl/client/cluster-client.h"
#include "talosctl/upgrade-cluster/rolling-run.h"
#include "talosctl/upgrade/image-file.h"

namespace talos::talosctl {

// The name of an image as users write it: docs/upgrades.md.
struct ImageSource {
  ImageName name;
  kj::Maybe<kj::Own<ImageFile>> file;  // file to send
};

class RemoteNodes final : public RollingCluster {
 public:
  // `call` and `source` must outlive this object. `kubernetes`: Kubernetes lists the nodes;
  // otherwise `nodes` are all of them. A timeout of 0 s means the node's own health timeout.
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
  kj::Vector<kj::String> addresses;  // addresses in the newest survey
  // Nodes for requests about Kubernetes and etcd, the newest first.
  kj::Vector<kj::String> controlPlane;
  kj::Vector<kj::String> cannotFetch;  // nodes of older systems
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
