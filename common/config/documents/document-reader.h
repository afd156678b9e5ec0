// One document at a time, from its schema into the view; part of documents.h.
#pragma once

#include <capnp/message.h>
#include <kj/memory.h>

#include <map>
#include <string>

#include "common/config/documents/documents.h"
#include "common/memory/zeroize.h"
#include "common/yaml/yaml.h"
#include "rpc/config-documents-kubernetes.capnp.h"
#include "rpc/config-documents.capnp.h"

namespace talos::config {

// A document and the places of its keys.
struct Document {
  const codec::YamlNode& node;
  kj::StringPtr kind;
  kj::String label;  // "HostnameConfig", "LinkConfig[eth0]": what paths begin with
  codec::Places places = {};
};

// Decodes documents, and says where the values of the view come from.
class DocumentDecoder {
 public:
  DocumentDecoder(const codec::YamlStream& stream, kj::StringPtr file, codec::Places& where,
                  Origins& origins, Problems& problems)
      : stream(stream), file(file), where(where), origins(origins), problems(problems) {}

  // Returns nullptr if the document has an error.
  template <typename T>
  kj::Maybe<typename T::Reader> decode(Document& document) {
    auto orphan = message.getOrphanage().newOrphan<T>();
    if (!decode(document, orphan.get())) return nullptr;
    return held.add(kj::mv(orphan)).template getAs<T>().asReader();
  }
  // Reports a problem at a key of the document; at the document if `key` is "".
  void report(const Document& document, kj::StringPtr key, kj::String text, kj::StringPtr hint,
              Problem::Severity severity = Problem::Severity::kError);
  // Reports, as an error, that the main document has the same setting. In a kept config the
  // document acts all the same: an earlier release accepted both.
  void conflict(const Document& document, kj::String text);
  // Reports a key that this system cannot carry out, if the document has it.
  void refuse(const Document& document, kj::StringPtr key, kj::StringPtr reason,
              kj::StringPtr hint = "remove it");
  // Returns the number of errors that keep their documents from acting.
  size_t errors() const { return counts[static_cast<int>(Problem::Severity::kError)] - conflicts; }
  // Says which key of the document gives a value of the view. A problem of the value is then
  // reported at the key. If `key` is "", this is so for the keys of the document that the view has
  // below the value under equal names, too.
  void from(const Document& document, kj::StringPtr key, kj::StringPtr inView);
  // Does the same for what is below the key, too, which the view has under equal names.
  void fromAllOf(const Document& document, kj::StringPtr key, kj::StringPtr inView);
  // Ends a document: what `from` said holds if the document has no errors.
  void end(bool good);

 private:
  struct Value {
    kj::String inView, inDocument;
    codec::Place place;
  };
  struct KeyPlace {
    kj::String inView;
    codec::Place place;
  };
  const codec::YamlStream& stream;
  kj::StringPtr file;
  codec::Places& where;
  Origins& origins;
  Problems& problems;
  size_t counts[2] = {};                              // of the problems, by severity
  size_t conflicts = 0;                               // number of calls of conflict()
  kj::Vector<Value> values;                           // of the document at hand
  kj::Vector<KeyPlace> keys;                          // of the document at hand
  SecretMessage message;                              // decoded documents
  kj::Vector<capnp::Orphan<capnp::AnyPointer>> held;  // in `message`

  bool decode(Document& document, capnp::DynamicStruct::Builder target);
  void add(Problem problem);
  // Adds the keys below a node to `keys`.
  void addKeys(const codec::YamlNode& node, kj::StringPtr inView);
};

// Returns the first mistake in a text with certificates, of which `found` are those that end.
kj::Maybe<kj::String> certificatesMistake(kj::StringPtr text, kj::ArrayPtr<const kj::String> found);
constexpr auto kPemForm = "use certificates in PEM, from BEGIN to END"_kj;

// Items that documents add to a list of the view, collected so that the list is written once.
template <typename Item>
class Additions {
 public:
  using List = capnp::List<Item>;
  explicit Additions(size_t before) : before(before) {}
  // Returns a new item; `path` is then its path in the list of the view.
  typename Item::Builder add(kj::StringPtr list, kj::String& path) {
    path = kj::str(list, "[", before + messages.size(), "]");
    messages.add(kj::heap<SecretMessage>());
    return messages.back()->template initRoot<Item>();
  }
  size_t size() const { return messages.size(); }
  void keepFirst(size_t count) { messages.truncate(count); }
  // Writes the present items and the new ones into the list that `init` makes in the place of the
  // present one.
  template <typename Init>
  void write(typename List::Reader present, Init init) {
    if (messages.empty()) return;
    SecretMessage copy;
    copy.setRoot(present);
    auto old = copy.getRoot<List>().asReader();
    typename List::Builder out = init(static_cast<unsigned>(before + messages.size()));
    unsigned next = 0;
    for (auto item : old) out.setWithCaveats(next++, item);
    for (auto& added : messages) {
      out.setWithCaveats(next++, added->template getRoot<Item>().asReader());
    }
  }

 private:
  size_t before;
  kj::Vector<kj::Own<SecretMessage>> messages;
};

// Documents of links. Each is one more item of machine.network.interfaces, because several items
// for one link add up.
class LinkDocuments {
 public:
  LinkDocuments(DocumentDecoder& decoder, Config::Builder view);

  // Each reads one kind.
  void link(Document& document);
  void alias(Document& document);
  void dummy(Document& document);
  void vlan(Document& document);
  void bridge(Document& document);
  void bond(Document& document);
  void vrf(Document& document);
  void veth(Document& document);
  void wireguard(Document& document);
  void dhcp4(Document& document);
  void dhcp6(Document& document);
  void sharedAddress(Document& document);
  void hcloudAddress(Document& document);

  // Drops what has been added since then.
  struct Mark {
    size_t interfaces, aliases;
  };
  Mark mark() const { return {interfaces.size(), aliases.size()}; }
  void dropSince(Mark mark);
  void write();

 private:
  DocumentDecoder& decoder;
  Config::Builder view;
  std::map<std::string, std::string> links;  // name of a link that a document describes, its label
  Additions<Interface> interfaces;
  Additions<LinkAlias> aliases;

  // Checks and writes the keys that all links have, which begin with `prefix` in the document;
  // `path` is then the path of the item.
  template <typename Reader>
  Interface::Builder linkOf(Document& document, Reader link, kj::String& path,
                            kj::StringPtr prefix = "");
  void addresses(Document& document, kj::StringPtr prefix,
                 capnp::List<document::LinkAddress>::Reader list, Interface::Builder out,
                 kj::StringPtr path);
  void routes(Document& document, kj::StringPtr prefix,
              capnp::List<document::LinkRoute>::Reader list, Interface::Builder out,
              kj::StringPtr path);
  void route(Document& document, kj::StringPtr key, document::LinkRoute::Reader given,
             Route::Builder out, kj::StringPtr path);
  template <typename Reader>
  void dhcp(Document& document, Reader settings, bool ipv6);
  // Adds the shared address of a document; returns nullptr on a worker. `path` is then the path of
  // the item.
  template <typename Reader>
  kj::Maybe<Vip::Builder> shared(Document& document, Reader settings, kj::String& path);
};

// Returns the number of a table of routes, of which documents know 1 to 252, default, main and
// local; 0 if the text is empty or unspec. nullptr for other texts.
kj::Maybe<uint32_t> routingTable(kj::StringPtr text);
constexpr auto kTableForm = "use 1 to 252, default, main or local"_kj;

// Documents of routing rules, and of routes of no link: machine.network.routingRules and .routes of
// the view.
class RoutingDocuments {
 public:
  RoutingDocuments(DocumentDecoder& decoder, Config::Builder view);

  // Each reads one kind.
  void rule(Document& document);
  void blackhole(Document& document);

  // Drops what has been added since then.
  struct Mark {
    size_t rules, routes;
  };
  Mark mark() const { return {rules.size(), routes.size()}; }
  void dropSince(Mark mark);
  void write();

 private:
  DocumentDecoder& decoder;
  Config::Builder view;
  std::map<uint32_t, std::string> priorities;  // of rules, with the labels of their documents
  Additions<RoutingRule> rules;
  Additions<Route> routes;

  void priority(Document& document, kj::StringPtr text, RoutingRule::Builder out);
  // Checks the conditions of a rule.
  void conditions(Document& document, document::RoutingRuleConfig::Reader rule);
};

// Documents of the firewall: machine.network.firewall of the view.
class FirewallDocuments {
 public:
  FirewallDocuments(DocumentDecoder& decoder, Config::Builder view);

  // Each reads one kind.
  void defaultAction(Document& document);
  void rule(Document& document);

  // Drops what has been added since then.
  struct Mark {
    size_t rules;
  };
  Mark mark() const { return {rules.size()}; }
  void dropSince(Mark mark);
  void write();

 private:
  DocumentDecoder& decoder;
  Config::Builder view;
  bool block = false;
  size_t parts = 0;  // ports and sources of all rules
  Additions<FirewallRule> rules;

  void ports(Document& document, capnp::List<capnp::Text>::Reader list, FirewallRule::Builder out);
  void sources(Document& document, capnp::List<document::NetworkRuleConfig::Source>::Reader list,
               FirewallRule::Builder out);
  // Returns the network without the bits after its prefix.
  kj::String network(Document& document, kj::StringPtr key, kj::StringPtr text);
};

// Documents of links' drivers: machine.network.ethernet of the view.
class EthernetDocuments {
 public:
  EthernetDocuments(DocumentDecoder& decoder, Config::Builder view);

  // Reads the one kind.
  void ethernet(Document& document);

  // Drops what has been added since then.
  struct Mark {
    size_t links;
  };
  Mark mark() const { return {links.size()}; }
  void dropSince(Mark mark) { links.keepFirst(mark.links); }
  void write();

 private:
  DocumentDecoder& decoder;
  Config::Builder view;
  Additions<Ethernet> links;

  // Writes the features that the document gives a value.
  void features(Document& document, capnp::List<EthernetFeature>::Reader list,
                Ethernet::Builder out);
};

// Documents of probes: machine.network.probes of the view.
class ProbeDocuments {
 public:
  ProbeDocuments(DocumentDecoder& decoder, Config::Builder view);

  // Each reads one kind.
  void tcp(Document& document);
  void http(Document& document);

  // Drops what has been added since then.
  struct Mark {
    size_t probes;
  };
  Mark mark() const { return {probes.size()}; }
  void dropSince(Mark mark) { probes.keepFirst(mark.probes); }
  void write();

 private:
  struct Known {
    std::string label, settings;
  };
  DocumentDecoder& decoder;
  Config::Builder view;
  Additions<Probe> probes;
  std::map<std::string, Known> targets;

  // Adds the probe of a document, whose target is valid.
  struct Target {
    bool http;
    bool good;  // no mistake was found in it
  };
  template <typename Reader>
  void add(Document& document, Reader settings, kj::StringPtr target, Target at);
  kj::Maybe<uint64_t> milliseconds(Document& document, kj::StringPtr key, kj::StringPtr text,
                                   kj::Duration least, kj::Duration otherwise);
};

// Documents of names, time, registries, logs and other things of a node.
class NodeDocuments {
 public:
  NodeDocuments(DocumentDecoder& decoder, Config::Builder view);

  // Each reads one kind.
  void hostname(Document& document);
  void resolver(Document& document);
  void timeSync(Document& document);
  void staticHost(Document& document);
  void mirror(Document& document);
  void registryAuth(Document& document);
  void registryTls(Document& document);
  void kernelLog(Document& document);
  void eventSink(Document& document);
  void environment(Document& document);
  void installation(Document& document);
  void watchdog(Document& document);
  void kubePrism(Document& document);
  void imageCache(Document& document);
  void trustedRoots(Document& document);
  void etcFile(Document& document);

  // Drops what has been added since then.
  struct Mark {
    size_t hosts, destinations, roots, files;
  };
  Mark mark() const { return {hosts.size(), destinations.size(), roots.size(), files.size()}; }
  void dropSince(Mark mark);
  void write();

 private:
  DocumentDecoder& decoder;
  Config::Builder view;
  SecretMessage scratch;
  Additions<HostEntry> hosts;
  Additions<LogDestination> destinations;
  Additions<StringPair> roots;
  Additions<File> files;
  // The mirrors and the values of the last document of a registry, of a host and of a variable.
  std::map<std::string, capnp::Orphan<Registries::Mirror>> mirrors;
  std::map<std::string, capnp::Orphan<Registries::RegistryEntry>> registries;
  std::map<std::string, std::string> variables;

  Network::Builder network() { return view.getMachine().getNetwork(); }
  // Returns the entry of the registry that the document names.
  Registries::RegistryEntry::Builder registry(Document& document, kj::StringPtr host);
  void writeRegistries();
  void writeVariables();
};

// Documents of the Kubernetes control plane. Each is refused beside the keys that it replaces.
class ControlPlaneDocuments {
 public:
  ControlPlaneDocuments(DocumentDecoder& decoder, Config::Builder view);

  // Each reads one kind.
  void auditPolicy(Document& document);
  void admission(Document& document);
  void authorizer(Document& document);
  void scheduler(Document& document);

  // Drops what has been added since then.
  struct Mark {
    size_t plugins, authorizers;
  };
  Mark mark() const { return {plugins.size(), authorizers.size()}; }
  void dropSince(Mark mark);
  void write();

 private:
  DocumentDecoder& decoder;
  Config::Builder view;
  Additions<AdmissionPlugin> plugins;
  Additions<Authorizer> authorizers;
  size_t mainPlugins, mainAuthorizers;  // numbers in the main document

  ApiServer::Reader main() const;
  // Reports that the document cannot be on this machine, or beside the key. Returns true if it did.
  bool refuses(Document& document, bool isSet, kj::StringPtr key);
};

// Documents of containers and pods.
class PodDocuments {
 public:
  PodDocuments(DocumentDecoder& decoder, Config::Builder view);

  // Each reads one kind.
  void baseRuntimeSpec(Document& document);
  void containerdPart(Document& document);
  void staticPod(Document& document);

  // Drops what has been added since then.
  struct Mark {
    size_t pods, files;
  };
  Mark mark() const { return {pods.size(), files.size()}; }
  void dropSince(Mark mark);
  void write();

 private:
  DocumentDecoder& decoder;
  Config::Builder view;
  Additions<StaticPod> pods;
  Additions<File> files;
};

// Documents of the kernel: parameters, attributes and drivers of devices, modules, and what happens
// when memory is short; and rules of udev, which are refused. A setting of a document replaces that
// of the main document for the same file or module.
class KernelDocuments {
 public:
  KernelDocuments(DocumentDecoder& decoder, Config::Builder view);

  // Each reads one kind.
  void parameters(Document& document);
  void attributes(Document& document);
  void kernelModule(Document& document);
  void udevRules(Document& document);
  void pciDriver(Document& document);
  void outOfMemory(Document& document);
  void zswap(Document& document);

  // Drops what has been added since then.
  struct Mark {
    size_t modules, drivers;
  };
  Mark mark() const { return {modules.size(), drivers.size()}; }
  void dropSince(Mark mark) {
    modules.keepFirst(mark.modules);
    drivers.keepFirst(mark.drivers);
  }
  void write();

 private:
  DocumentDecoder& decoder;
  Config::Builder view;
  std::map<std::string, std::string> moduleDocuments;  // name of a module, label of its document
  std::map<std::string, unsigned> mainModules;  // name of a module, its index in the main document
  Additions<KernelModule> modules;
  std::map<std::string, std::string> driverDocuments;  // device on PCI, label of its document
  Additions<PciDriver> drivers;

  // Writes settings into a list of the view, which `init` makes in the place of `present`; `list`
  // is its path. `key`: the map of the document that has the settings; "": the document says what
  // they are in another way.
  template <typename Init>
  void merge(Document& document, kj::StringPtr key, capnp::List<document::Setting>::Reader settings,
             kj::StringPtr list, capnp::List<StringPair>::Reader present, Init init);
  // Returns the milliseconds of a duration; 0 for the default.
  uint32_t sampleInterval(Document& document, kj::StringPtr text);
  // Returns the module of the view with this name, or a new one; `path` is then its path.
  KernelModule::Builder moduleNamed(kj::StringPtr name, kj::String& path);
};

// Documents of volumes: machine.volumes and machine.trims of the view, and the encryption and size
// of the volumes of the system.
class VolumeDocuments {
 public:
  VolumeDocuments(DocumentDecoder& decoder, Config::Builder view);

  // Each reads one kind.
  void systemVolume(Document& document);
  void userVolume(Document& document);
  void rawVolume(Document& document);
  void swapVolume(Document& document);
  void existingVolume(Document& document);
  void trimOfAll(Document& document);

  // Drops what has been added since then.
  struct Mark {
    size_t volumes, trims;
  };
  Mark mark() const { return {volumes.size(), trims.size()}; }
  void dropSince(Mark mark) {
    volumes.keepFirst(mark.volumes);
    trims.keepFirst(mark.trims);
  }
  void write();
  // Returns the keys that encrypt a volume of the system: "VolumeConfig[EPHEMERAL].encryption".
  kj::ArrayPtr<const kj::String> encryptions() const { return encrypts; }

 private:
  DocumentDecoder& decoder;
  Config::Builder view;
  kj::Vector<kj::String> encrypts;
  // The document that has it, or the partition of machine.disks.
  std::map<std::string, std::string> mountpoints;
  Additions<StorageVolume> volumes;
  Additions<TrimRule> trims;

  // Sizes in bytes.
  struct Least {
    uint64_t usual;     // the least size if the document does not say it
    uint64_t possible;  // a smaller volume does not work
  };

  void userPartition(Document& document, document::UserVolumeConfig::Reader settings);
  void directory(Document& document, document::UserVolumeConfig::Reader settings);
  // Adds a volume; returns nullptr if the name is not valid, or taken.
  kj::Maybe<StorageVolume::Builder> add(Document& document, kj::StringPtr name,
                                        StorageVolume::Kind kind, bool mounted);
  template <typename Reader>
  void barePartition(Document& document, Reader settings, StorageVolume::Kind kind);
  // Reads the disk and the size of a partition.
  void placed(Document& document, document::VolumeProvisioning::Reader settings,
              StorageVolume::Builder out, uint64_t possible);
  void selector(Document& document, document::VolumeProvisioning::Reader settings,
                StorageVolume::Builder out);
  void sizes(Document& document, document::VolumeProvisioning::Reader settings,
             VolumeSize::Builder out, Least bounds);
  void maximum(Document& document, kj::StringPtr text, VolumeSize::Builder out);
  void encryption(Document& document, document::VolumeEncryption::Reader settings,
                  Encryption::Builder out);
  void options(Document& document, document::VolumeMount::Reader settings,
               StorageVolume::Builder out);
  void filesystem(Document& document, document::VolumeFilesystem::Reader settings);
  // Reads the block of a volume; a volume without a rule has that of all.
  void trim(Document& document, document::FilesystemTrim::Reader settings,
            kj::StringPtr mountpoint);
  void addTrim(Document& document, kj::StringPtr key, kj::StringPtr mountpoint, uint64_t seconds);
  // Returns the whole seconds of an interval; 0 if it is absent or wrong.
  uint64_t interval(Document& document, kj::StringPtr key, kj::StringPtr text);
  // Parts of a volume of the system, into a view that holds only its values.
  void systemMount(Document& document, document::VolumeMount::Reader settings, bool state);
  void systemSize(Document& document, document::VolumeProvisioning::Reader settings, bool state,
                  Machine::Builder out);
  void systemEncryption(Document& document, document::VolumeEncryption::Reader settings, bool state,
                        Machine::Builder out);
  void setSystem(Document& document, Machine::Reader found);
  void encryptionFrom(Document& document, kj::StringPtr inView);
};

}  // namespace talos::config
