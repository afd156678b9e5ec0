// An iSCSI target in user space, Debian's tgt, in the network of a local cluster: at the gateway's
// address, port 3260. Its disks are files of this object, and gone with it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "tests/kubernetes/kube-cluster.h"

namespace talos {

class IscsiTarget {
 public:
  struct Account {
    std::string user, password;
  };

  // Throws with its output if it does not listen within 60 s.
  explicit IscsiTarget(const KubeCluster& cluster);
  ~IscsiTarget();
  IscsiTarget(const IscsiTarget&) = delete;

  // Adds a new, empty disk of 64 MiB as LUN 1 of the target with this name. Initiators at any
  // address may log in; with an account, by CHAP as this account.
  void offer(const std::string& name, const std::optional<Account>& account = {});
  // Returns the path of the disk's file.
  std::string disk(const std::string& name) const;
  // Returns the initiators that are logged in, a line for each connection.
  std::string connections(const std::string& name) const;

 private:
  std::string home;
  std::map<std::string, unsigned> numbers;
  std::unique_ptr<harness::Background> process;

  harness::Result administer(std::vector<std::string> arguments) const;
  void require(std::vector<std::string> arguments) const;
};

}  // namespace talos
