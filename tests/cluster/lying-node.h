// A worker controlled by an attacker, for tests of rotations: its apid is lying-apid.cc, which
// shows a config, list of members or file that the node does not have, and logs the configs that it
// receives.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "common/tls/pki.h"
#include "tests/harness/cluster.h"

namespace talos {

// JSON Patches of the config that a node shows, about the CA below "/machine" or "/cluster".
class Lies {
 public:
  explicit Lies(const std::string& part) : part(part) {}

  // Returns a patch with all keys of a control-plane node, none of which belongs to the cluster.
  std::string controlPlane(const std::string& type = "controlplane") const;
  std::string otherCa() const;
  std::string otherHash() const;  // machine.caHash in place of machine.ca
  // Returns a patch with a certificate of the key of `own`, the cluster's CA in base64, signed by
  // another CA.
  std::string sameKey(const std::string& own) const;
  std::string noCa() const;
  std::string noCertificate() const;
  std::string noPersistence() const;
  // Returns a patch with the accepted CAs of a rotation from a foreign CA to `own`, after its phase
  // "issue".
  std::string acceptedCas(const std::string& own) const;

 private:
  std::string part;
  pki::CertificateAndKey foreign = pki::makeAuthority({.organization = "talos"});

  std::string pair() const;
};

// Returns the private keys and the keys of Secrets in a config.
std::set<std::string> keysIn(const std::string& config);

class LyingNode {
 public:
  static constexpr double kRunTimeout = 400;  // s; beside other tests

  // Replaces the node's apid by $LYING_APID. `talosconfig`: a client configuration that the cluster
  // accepts now.
  LyingNode(const harness::Cluster& cluster, const std::string& name, const std::string& address,
            std::function<std::string()> talosconfig);

  // Sets the lie from now on; empty: the truth.
  void tell(const std::string& patch) const { lie("config", patch); }
  // Sets the members that the node lists, "NAME ADDRESS TYPE" each.
  void tellMembers(const std::string& lines) const { lie("members", lines); }
  // Sets the content of each file that is read.
  void tellFiles(const std::string& content) const { lie("files", content); }

  // Returns the configs that the node has received until now, and the calls for Kubernetes.
  std::string received() const;
  // Expects that a run that reads a lie in its first look ends with this error and sends nothing to
  // the node.
  void expectRefused(const std::vector<std::string>& command, const std::string& error) const;
  // Lets the node lie from this line of the run on, and expects that the run ends with the node's
  // name and the reason. The run is stopped while the lie is set, and `meanwhile` runs then.
  // Returns a time shortly before the line.
  double expectStopped(
      const std::vector<std::string>& command, const std::string& line, const std::string& patch,
      const std::string& reason, const std::function<void()>& meanwhile = [] {}) const;

  const std::string name, address;

 private:
  const harness::Cluster& cluster;
  std::function<std::string()> talosconfig;

  void lie(const std::string& about, const std::string& content) const;
};

}  // namespace talos
