// An NFS server in user space, Debian's nfs-ganesha, in the network of a local cluster: NFS 4.1 and
// 4.2 at the gateway's address, as kernels of nodes and of no host mount it. It has one export,
// /data, with the owners as numbers and root as root, and ends with the object.
#pragma once

#include <memory>
#include <string>

#include "tests/kubernetes/kube-cluster.h"

namespace talos {

class NfsServer {
 public:
  // Throws with its log if it does not listen within 60 s.
  explicit NfsServer(const KubeCluster& cluster);
  ~NfsServer();
  NfsServer(const NfsServer&) = delete;

  // Returns the folder of /data.
  const std::string& folder() const { return data; }
  // Makes the server keep its connections and answer nothing, as one whose disk or network is gone.
  void freeze() const;
  void thaw() const;

 private:
  std::string home, data;
  std::unique_ptr<harness::Background> process;
};

}  // namespace talos
