// A worker in foreign hands, for tests of rotations: its apid is lying-apid.cc, which shows another
// config, list of members or file than the node has, and logs the configs that it is sent.
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

  // With all keys of a control-plane node, none of which belongs.
  std::string controlPlane(const std::string& type = "controlplane") const;
  std::string otherCa() const;
  std::string otherHash() const;  // machine.caHash in place of machine.ca
  // A certificate of another name and key; `own`: the CA of the cluster, in base64, whose key it
  // has.
  std::string sameKey(const std::string& own) const;
  std::string noCa() const;
  std::string noCertificate() const;
  std::string noPersistence() const;
  // The accepted CAs of a rotation from a foreign CA to `own` that has issued.
  std::string acceptedCas(const std::string& own) const;

 private:
  std::string part;
  pki::CertificateAndKey foreign = pki::makeAuthority({.organization = "talos"});

  std::string pair() const;
};

// The private keys and keys of Secrets in a config.
std::set<std::string> keysIn(const std::string& config);

class LyingNode {
 public:
  static constexpr double kRunTimeout = 400;  // s; beside other tests

  // $LYING_APID takes the place of the node's apid. `talosconfig`: a client configuration that is
  // served now.
  LyingNode(const harness::Cluster& cluster, const std::string& name, const std::string& address,
            std::function<std::string()> talosconfig);

  // From now on; empty: the truth.
  void tell(const std::string& patch) const { lie("config", patch); }
  // The members of the cluster that it lists, "NAME ADDRESS TYPE" each.
  void tellMembers(const std::string& lines) const { lie("members", lines); }
  // The content of each file that is read.
  void tellFiles(const std::string& content) const { lie("files", content); }

  // The configs that were sent to the node until now, and the calls for Kubernetes.
  std::string received() const;
  // A run that reads a lie in its first look ends with this error and sends nothing to the node.
  void expectRefused(const std::vector<std::string>& command, const std::string& error) const;
  // The node lies from this line of the run on, which ends with its name and the reason. The run
  // stands still while it begins to lie, and `meanwhile` is done. Returns a time shortly before the
  // line.
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
