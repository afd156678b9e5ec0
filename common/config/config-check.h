// The semantic checks of the machine config, in parts: rules that a schema cannot express.
//
// Each part reads its section only and reports every problem that it finds; none throws. They are
// called by config.cc for documents that were decoded, even with problems: a value that was refused
// by the decoder is absent here and not reported again. Pure. Secrets are never repeated in a
// message.
#pragma once

#include "common/base/problem.h"
#include "common/yaml/yaml-codec.h"
#include "common/yaml/yaml.h"
#include "rpc/config.capnp.h"

namespace talos::config {

class MachineConfig;

// The path of a key in a mapping with free keys, as the decoder writes it.
kj::String keyPath(kj::StringPtr parent, kj::StringPtr key);

// Collects problems with the place of their path in the document, codec::kMaxProblems of each
// severity. Values that the decoder refused are not reported again.
class Report {
 public:
  enum class Of { kNewConfig, kKeptConfig };
  Report(const codec::Places& places, kj::StringPtr file, Problems& problems,
         Of of = Of::kNewConfig)
      : places(places), file(file), problems(problems), of(of), decoders(problems.size()) {}

  // An error that earlier releases had as a warning, or not: of a kept config it is a warning.
  void laterError(kj::StringPtr path, kj::String message, kj::StringPtr hint = "");
  void error(kj::StringPtr path, kj::String message, kj::StringPtr hint = "");
  void warn(kj::StringPtr path, kj::String message, kj::StringPtr hint = "");
  bool has(kj::StringPtr path) const { return places.has(path); }
  // The document has it, and the decoder did not refuse it.
  bool isRead(kj::StringPtr path) const { return has(path) && !isRefused(path); }
  // The same, and nothing below it was refused.
  bool isWhollyRead(kj::StringPtr path) const;

  // Checks that several sections need.
  void cidr(kj::StringPtr path, kj::StringPtr text);
  void hosts(kj::StringPtr path, capnp::List<capnp::Text>::Reader names);
  void url(kj::StringPtr path, kj::StringPtr text);
  void absolutePath(kj::StringPtr path, kj::StringPtr text);
  // "" when the document has none.
  void duration(kj::StringPtr path, kj::StringPtr text, kj::Duration shortest,
                kj::StringPtr tooShort, kj::StringPtr hint);
  // An authority's certificate and its key, which workers are better without.
  enum class Key { kNeeded, kOptional, kUnwanted };
  void authority(kj::StringPtr path, CertificateAndKey::Reader pair, Key key);
  // CAs beside it, without keys.
  void accepted(kj::StringPtr path, capnp::List<AcceptedCa>::Reader list);
  void accepted(kj::StringPtr path, capnp::List<AcceptedKey>::Reader list);  // public keys
  // A secret of any form that is too easy to guess.
  void strength(kj::StringPtr path, kj::StringPtr secret);
  void aescbcKey(kj::StringPtr path, kj::StringPtr base64);
  void secretboxKey(kj::StringPtr path, kj::StringPtr base64);
  void acceptedKey(kj::StringPtr path, kj::StringPtr base64);  // the same, and not empty
  // Command line arguments by name; `taken` are those that the system sets itself.
  void arguments(kj::StringPtr path, capnp::List<StringPair>::Reader arguments,
                 kj::ArrayPtr<const kj::StringPtr> taken = nullptr);

 private:
  const codec::Places& places;
  kj::StringPtr file;
  Problems& problems;
  Of of;
  size_t decoders;        // problems that were there before
  size_t counts[2] = {};  // by severity

  bool isRefused(kj::StringPtr path) const;
  void add(Problem::Severity severity, kj::StringPtr path, kj::String message, kj::StringPtr hint);
};

// The requirement for keys of CAs on a machine of this type; none for an unknown type.
Report::Key keysOf(const Report& report, MachineType type);

void checkMachine(Report& report, Machine::Reader machine);
void checkKubelet(Report& report, Machine::Reader machine);
void checkKubeletConfiguration(Report& report, Config::Reader config);
void checkKernel(Report& report, Machine::Reader machine);
void checkMetrics(Report& report, Config::Reader config);
void checkNetwork(Report& report, Network::Reader network, MachineType type);
void checkDeviceSelector(Report& report, kj::StringPtr path, DeviceSelector::Reader selector);
void checkBond(Report& report, kj::StringPtr path, Bond::Reader bond);
void checkWireguard(Report& report, kj::StringPtr path, Wireguard::Reader wireguard);
void checkLogging(Report& report, Logging::Reader logging);
void checkEtcdBackup(Report& report, EtcdBackup::Reader backup);
void checkStorage(Report& report, Machine::Reader machine);
void checkRegistries(Report& report, Registries::Reader registries);
void checkCluster(Report& report, Cluster::Reader cluster, MachineType type);
void checkClusterSubnets(Report& report, Cluster::Reader cluster, bool controlPlane);

// The problems of a config for the node that may have kept it from an earlier release: what such a
// one took is a warning, so that the node boots with it after an upgrade.
Problems problemsOfKept(const MachineConfig& config, kj::StringPtr file);

// Keys of later versions, which are warnings.
kj::ArrayPtr<const codec::LaterKey> laterKeys();

// The index of the machine config in a stream: the first document with the key `machine`.
kj::Maybe<size_t> machineConfigIn(const codec::YamlStream& stream);

// Documents of later versions beside the main one, by their key `kind`.
struct LaterKind {
  kj::StringPtr name;
  kj::StringPtr since;
  kj::StringPtr replacement;  // keys of the main document that do the same; "" if there are none
  // It blocks packets. A warning is not enough: its author believes the machine to be closed.
  bool firewall = false;
};
kj::ArrayPtr<const LaterKind> laterKinds();
// The known kind of a document that is not the main one.
kj::Maybe<const LaterKind&> laterKindOf(const codec::YamlNode& document);

// Corrects known mistakes of published documents in the tree before it is decoded, each with a
// warning (codec::kMaxProblems of them). Time is linear in the size of the tree.
void correct(codec::YamlStream& stream, const codec::YamlNode& root, kj::StringPtr file,
             Problems& problems);

}  // namespace talos::config
