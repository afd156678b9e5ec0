// One document at a time, from its schema into the view; part of documents.h.
#pragma once

#include <capnp/message.h>
#include <kj/memory.h>

#include <map>
#include <set>
#include <string>

#include "common/config/documents.h"
#include "common/memory/zeroize.h"
#include "common/yaml/yaml.h"
#include "rpc/config-documents.capnp.h"

namespace talos::config {

// A document and the places of its keys.
struct Document {
  const codec::YamlNode& node;
  kj::StringPtr kind;
  kj::String label;  // "HostnameConfig", "LinkConfig[eth0]": what paths begin with
  codec::Places places = {};
};

// Items that documents add to a list of the view, collected so that the list is written once.
template <typename Item>
class Additions {
 public:
  explicit Additions(size_t before) : before(before) {}
  // Returns a new item; `path` is then its path in the list of the view.
  typename Item::Builder add(kj::StringPtr list, kj::String& path) {
    path = kj::str(list, "[", before + messages.size(), "]");
    messages.add(kj::heap<SecretMessage>());
    return messages.back()->template initRoot<Item>();
  }
  size_t size() const { return messages.size(); }
  void keepFirst(size_t count) { messages.truncate(count); }
  // Writes the items of the list so far, and after them the new ones.
  void write(typename capnp::List<Item>::Reader old,
             typename capnp::List<Item>::Builder out) const {
    for (unsigned i = 0; i < before; ++i) out.setWithCaveats(i, old[i]);
    for (unsigned i = 0; i < messages.size(); ++i) {
      out.setWithCaveats(static_cast<unsigned>(before) + i,
                         messages[i]->template getRoot<Item>().asReader());
    }
  }

 private:
  size_t before;
  kj::Vector<kj::Own<SecretMessage>> messages;
};

class DocumentReader {
 public:
  DocumentReader(const codec::YamlStream& stream, kj::StringPtr file, Config::Builder view,
                 codec::Places& where, Origins& origins, Problems& problems);

  // Reads a document of a kind with an effect.
  void read(const codec::YamlNode& node, kj::StringPtr kind);
  // Writes what several documents add up to.
  void finish();

  // Each reads one kind.
  void hostname(Document& document);
  void resolver(Document& document);
  void timeSync(Document& document);
  void staticHost(Document& document);
  void link(Document& document);
  void alias(Document& document);
  void dummy(Document& document);
  void vlan(Document& document);
  void bridge(Document& document);
  void bond(Document& document);
  void wireguard(Document& document);
  void dhcp4(Document& document);
  void dhcp6(Document& document);
  void sharedAddress(Document& document);
  void mirror(Document& document);
  void registryAuth(Document& document);
  void registryTls(Document& document);
  void kernelLog(Document& document);
  void environment(Document& document);
  void watchdog(Document& document);

 private:
  const codec::YamlStream& stream;
  kj::StringPtr file;
  Config::Builder view;
  codec::Places& where;
  Origins& origins;
  Problems& problems;
  size_t counts[2] = {};  // of the problems, by severity
  struct Value {
    kj::String inView, inDocument;
    codec::Place place;
  };
  kj::Vector<Value> values;                  // of the document at hand
  std::set<std::string> seen;                // labels of the documents
  std::set<std::string> kinds;               // of those that are in the view
  std::map<std::string, std::string> links;  // name of a link that a document describes, its kind
  SecretMessage scratch;                     // documents, until they are in the view
  Additions<Interface> interfaces;
  Additions<HostEntry> hosts;
  Additions<LinkAlias> aliases;
  Additions<LogDestination> destinations;
  // The last document of a registry, and the values for a host and for a variable.
  std::map<std::string, capnp::Orphan<Registries::Mirror>> mirrors;
  std::map<std::string, capnp::Orphan<Registries::RegistryEntry>> registries;
  std::map<std::string, std::string> variables;

  kj::Vector<capnp::Orphan<capnp::AnyPointer>> held;  // decoded documents

  Network::Builder network() { return view.getMachine().getNetwork(); }
  void finishVariables();
  void finishRegistries();
  // Decodes a document; nullptr if it has an error.
  template <typename T>
  kj::Maybe<typename T::Reader> decode(Document& document) {
    auto orphan = scratch.getOrphanage().newOrphan<T>();
    if (!decode(document, orphan.get())) return nullptr;
    return held.add(kj::mv(orphan)).template getAs<T>().asReader();
  }
  bool decode(Document& document, capnp::DynamicStruct::Builder target);
  void report(const Document& document, kj::StringPtr key, kj::String message, kj::StringPtr hint,
              Problem::Severity severity = Problem::Severity::kError);
  void add(Problem problem);
  // Refuses a key that this system cannot carry out, if the document has it.
  void refuse(const Document& document, kj::StringPtr key, kj::StringPtr reason,
              kj::StringPtr hint = "");
  // Says which key of the document gives a value of the view.
  void from(const Document& document, kj::StringPtr key, kj::StringPtr inView);

  // Checks the keys that all links have, and writes them.
  template <typename Reader>
  Interface::Builder linkOf(Document& document, Reader link, kj::String& path);
  void addresses(Document& document, capnp::List<document::LinkAddress>::Reader list,
                 Interface::Builder out, kj::StringPtr path);
  void routes(Document& document, capnp::List<document::LinkRoute>::Reader list,
              Interface::Builder out, kj::StringPtr path);
  void route(Document& document, kj::StringPtr key, document::LinkRoute::Reader given,
             Route::Builder out, kj::StringPtr path);
  template <typename Reader>
  void dhcp(Document& document, Reader settings, bool ipv6);
  Registries::RegistryEntry::Builder registry(kj::StringPtr host);
};

}  // namespace talos::config
