// The documents beside the main one of a machine config: HostnameConfig, LinkConfig, ….
//
// Each kind has a schema (rpc/config-documents*.capnp) and strict keys, as the main document. Its
// values are written into the view of the main document: HostnameConfig sets
// machine.network.hostname, a LinkConfig adds an item to machine.network.interfaces. So everything
// that reads the config carries out both forms in the same way, and the checks of the main document
// hold for both. A key that this system cannot carry out is an error. Pure.
//
// A document with an error is not written into the view; the others are. A document whose error the
// checks of the view find is left out when the view is made again (parse() of config.cc).
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include <set>

#include "common/base/problem.h"
#include "common/yaml/yaml-codec.h"
#include "rpc/config.capnp.h"

namespace talos::codec {
class YamlStream;
struct YamlNode;
}  // namespace talos::codec

namespace talos::config {

// The kinds of documents that have an effect.
kj::ArrayPtr<const kj::StringPtr> documentKinds();

// Names of the values that documents gave the view: the path of the value in the view, and the path
// in its document, such as LinkConfig[eth0].addresses[0].address.
class Origins {
 public:
  void add(kj::StringPtr inView, kj::StringPtr inDocument);
  // Replaces the path of a value of the view, or of a value below it, by its path in the document;
  // also the path of another value with which the message begins.
  void rename(Problem& problem) const;

 private:
  struct Origin {
    kj::String inView, inDocument;
  };
  kj::Vector<Origin> origins;

  // Returns the path in the document; nullptr if no document gave the value.
  kj::Maybe<kj::String> renamed(kj::StringPtr path) const;
};

// Returns true for a path in a document beside the main one.
bool isInDocument(kj::StringPtr path);

// Documents that were not written into a view.
using RefusedDocuments = std::set<const codec::YamlNode*>;

// Writes the documents of all kinds with an effect into `view`, into which the main document has
// been read; except those in `refused`, and those that have one of the errors in `known`. Adds the
// documents that it does not write to `refused`. Reports each mistake with its place. Takes time
// linear in the size of the stream, times the number of errors in `known`.
void readDocuments(const codec::YamlStream& stream, const codec::YamlNode& main, kj::StringPtr file,
                   Config::Builder view, codec::Places& where, Origins& origins, Problems& problems,
                   RefusedDocuments& refused, kj::ArrayPtr<const Problem> known = nullptr);

}  // namespace talos::config
