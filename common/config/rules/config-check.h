// The semantic checks of the machine config, in parts: rules that a schema cannot express.
//
// Each part reads only its section and reports every problem that it finds; no part throws.
// config.cc calls them for documents that were decoded, even with problems: a value that the
// decoder refused is absent here and not reported again. Pure. Secrets are never repeated in a
// message.
#pragma once

#include <string>

#include "common/base/problem.h"
#include "common/config/rules/config-values.h"
#include "common/yaml/yaml-codec.h"
#include "common/yaml/yaml.h"
#include "rpc/config.capnp.h"

namespace talos::config {

// Returns the path of a key in a mapping with free keys, as the decoder writes it.
kj::String keyPath(kj::StringPtr parent, kj::StringPtr key);

// Collects problems with the place of their path in the document, codec::kMaxProblems of each
// severity. Values that the decoder refused are not reported again.
class Report {
 public:
  enum class Of { kNewConfig, kKeptConfig };
  Report(const codec::Places& places, kj::StringPtr file, Problems& problems,
         Of of = Of::kNewConfig)
      : places(places), file(file), problems(problems), of(of), decoders(problems.size()) {}

  // Reports an error that earlier releases reported as a warning, or not at all: in a kept config
  // it is a warning.
  void laterError(kj::StringPtr path, kj::String message, kj::StringPtr hint = "");
  void error(kj::StringPtr path, kj::String message, kj::StringPtr hint = "");
  void warn(kj::StringPtr path, kj::String message, kj::StringPtr hint = "");
  bool has(kj::StringPtr path) const { return places.has(path); }
  // Returns true if the document has the key, and the decoder did not refuse it.
  bool isRead(kj::StringPtr path) const { return has(path) && !isRefused(path); }
  // Returns true if, in addition, nothing below the key was refused.
  bool isWhollyRead(kj::StringPtr path) const;

  // Checks that several sections share.
  void cidr(kj::StringPtr path, kj::StringPtr text);
  // Checks subnets that select addresses; ! before a subnet excludes its addresses.
  void subnets(kj::StringPtr path, capnp::List<capnp::Text>::Reader list);
  void hosts(kj::StringPtr path, capnp::List<capnp::Text>::Reader names);
  void url(kj::StringPtr path, kj::StringPtr text);
  void absolutePath(kj::StringPtr path, kj::StringPtr text);
  // Refuses a text that no registry can have as the name of an image. Earlier releases did not
  // check it.
  void image(kj::StringPtr path, kj::StringPtr text);
  // Checks a duration; `text` is "" if the document does not have the key.
  void duration(kj::StringPtr path, kj::StringPtr text, kj::Duration shortest,
                kj::StringPtr tooShort, kj::StringPtr hint);
  // Checks the certificate of a CA and its key; workers should not have the key.
  enum class Key { kNeeded, kOptional, kUnwanted };
  void authority(kj::StringPtr path, CertificateAndKey::Reader pair, Key key);
  // Checks further accepted CAs, which have no keys.
  void accepted(kj::StringPtr path, capnp::List<AcceptedCa>::Reader list);
  void accepted(kj::StringPtr path, capnp::List<AcceptedKey>::Reader list);  // public keys
  // Checks that a secret of any form is not too easy to guess.
  void strength(kj::StringPtr path, kj::StringPtr secret);
  void aescbcKey(kj::StringPtr path, kj::StringPtr base64);
  void secretboxKey(kj::StringPtr path, kj::StringPtr base64);
  // a public key that must not be empty
  void acceptedKey(kj::StringPtr path, kj::StringPtr base64);
  // Checks command line arguments by name; `taken` are the arguments that the system sets itself.
  void arguments(kj::StringPtr path, capnp::List<StringPair>::Reader arguments,
                 kj::ArrayPtr<const kj::StringPtr> taken = nullptr);

 private:
  const codec::Places& places;
  kj::StringPtr file;
  Problems& problems;
  Of of;
  size_t decoders;        // number of problems from the decoder
  size_t counts[2] = {};  // number of problems by severity

  bool isRefused(kj::StringPtr path) const;
  void add(Problem::Severity severity, kj::StringPtr path, kj::String message, kj::StringPtr hint);
};

// Returns the requirement for keys of CAs on a machine of this type; nullptr for an unknown type.
Report::Key keysOf(const Report& report, MachineType type);

// Returns true for a valid Kubernetes namespace: a label of DNS.
bool isNamespace(kj::StringPtr name);

void checkMachine(Report& report, Machine::Reader machine);
void checkKubelet(Report& report, Machine::Reader machine);
void checkKubeletConfiguration(Report& report, Config::Reader config);
// Checks machine.pods, seccompProfiles and baseRuntimeSpecOverrides.
void checkFreeFormValues(Report& report, Machine::Reader machine);
void checkKernel(Report& report, Machine::Reader machine);
// Returns the name of a module with _ for -, which the kernel does not distinguish.
std::string plainModuleName(kj::StringPtr name);
void checkMetrics(Report& report, Config::Reader config);
void checkKubePrism(Report& report, Config::Reader config);
void checkNetwork(Report& report, Network::Reader network, MachineType type);
// Refuses links that cannot be in their bond, bridge or VRF; warns of settings that a link in a
// bond or bridge cannot have.
void checkMembers(Report& report, Network::Reader network);
// Warns of gateways that their links cannot reach.
void checkGateways(Report& report, Network::Reader network);
// Warns of a firewall that keeps every client from the node.
void checkFirewall(Report& report, Firewall::Reader firewall);
void checkDeviceSelector(Report& report, kj::StringPtr path, DeviceSelector::Reader selector);
void checkBond(Report& report, kj::StringPtr path, Bond::Reader bond);
void checkWireguard(Report& report, kj::StringPtr path, Wireguard::Reader wireguard);
void checkLogging(Report& report, Logging::Reader logging);
void checkEtcdBackup(Report& report, EtcdBackup::Reader backup);
void checkStorage(Report& report, Machine::Reader machine);
void checkRegistries(Report& report, Registries::Reader registries);
void checkCluster(Report& report, Cluster::Reader cluster, MachineType type);
// Checks files, variables and resources of the control plane's components.
void checkComponentSettings(Report& report, Cluster::Reader cluster);
void checkClusterSubnets(Report& report, Cluster::Reader cluster, bool controlPlane);

// Returns the keys of later versions, each with its treatment.
kj::ArrayPtr<const codec::LaterKey> laterKeys();

// A kind of documents of later versions beside the main one, by their key `kind`.
struct LaterKind {
  kj::StringPtr name;
  kj::StringPtr since;
  kj::StringPtr replacement;  // what to use instead, for "use …"; may be ""
  codec::LaterTreatment treatment = codec::LaterTreatment::kWarning;
  kj::StringPtr reason = ""_kj;  // why this system does not have it; the message of an error
  // Returns true for a document that sets nothing which this system lacks; it is accepted.
  bool (*asksForNothing)(const codec::YamlNode& document) = nullptr;
};
kj::ArrayPtr<const LaterKind> laterKinds();

// Corrects known mistakes of published documents in the tree before it is decoded, each with a
// warning (codec::kMaxProblems of them). Takes time linear in the size of the tree.
void correct(codec::YamlStream& stream, const codec::YamlNode& root, kj::StringPtr file,
             Problems& problems);

}  // namespace talos::config
