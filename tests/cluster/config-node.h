// A running node with a published config, for the comparison of both: a container or a virtual
// machine of a local cluster, or a machine outside of any cluster.
//
// The config arrives in maintenance mode. Nothing else changes the node, but for a name in the
// certificate by which this host calls a machine outside of a cluster.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/config/config-generate.h"
#include "tests/harness/process.h"
#include "tests/published/config-facts.h"

namespace talos::published {

// The config as the node gets it.
struct NodeConfig {
  std::string text;
  bool worker = false;
  std::string token;         // machine.token
  std::string controlPlane;  // a config of a control-plane node with the same CAs
};

class ConfigNode {
 public:
  virtual ~ConfigNode() = default;

  // Calls the node as an administrator.
  virtual harness::Result talosctl(std::vector<std::string> arguments) const = 0;
  virtual std::string console() const = 0;
  // Returns the rules of nftables, as nft lists them; of a machine, the status of its firewall.
  virtual std::string firewall() const = 0;

  // Returns the content of a file of the node; empty if it cannot be read.
  std::string read(const std::string& path) const { return talosctl({"read", path}).out; }
  // Returns resources as YAML.
  std::string get(const std::string& type) const {
    return talosctl({"get", type, "-o", "yaml"}).out;
  }
};

// Starts a node, gives it the config and waits until its API answers. Throws if it does not.
std::unique_ptr<ConfigNode> startNode(const NodeConfig& config, const FactsFile& facts,
                                      const config::Secrets& secrets);

}  // namespace talos::published
