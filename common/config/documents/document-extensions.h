// Documents of the services of system extensions (ExtensionServiceConfig). They are checked with
// the other documents, and are not in the view: only the services read them (machined/extensions),
// by extensionConfigs(). Pure.
#pragma once

#include "common/config/documents/document-reader.h"
#include "rpc/extensions.capnp.h"

namespace talos::config {

class ExtensionDocuments {
 public:
  explicit ExtensionDocuments(DocumentDecoder& decoder) : decoder(decoder) {}

  // Checks the one kind.
  void serviceConfig(Document& document);

  // The view has no part of a document, so there is nothing to drop.
  struct Mark {};
  Mark mark() const { return {}; }
  void dropSince(Mark) {}

 private:
  DocumentDecoder& decoder;

  void checkFiles(const Document& document, document::ExtensionServiceConfig::Reader config);
  void checkEnvironment(const Document& document, document::ExtensionServiceConfig::Reader config);
};

// Fills in the documents ExtensionServiceConfig of a config, in their order; those with mistakes,
// which a config from an earlier release may have, are left out.
using InitConfigs = kj::Function<capnp::List<extension::ServiceConfig>::Builder(unsigned size)>;
void extensionConfigs(kj::ArrayPtr<const char> text, InitConfigs init);

}  // namespace talos::config
