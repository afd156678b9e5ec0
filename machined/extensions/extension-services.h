// Loads the services of the image's system extensions into the supervisor, as ext-<name>, and gives
// them the documents ExtensionServiceConfig of the machine config.
//
// Owns the folder of each service in kExtensionConfigFolder: the files of its document, and the
// digest of the document with which the running container was started (`.digest`). Both are in
// memory, outlive the brain and end with the machine. The files are replaced one by one before a
// container is started or restarted. After a crash in between the digest is still that of the
// running container, so the next brain, which gets the same documents, writes the files again and
// restarts the container; a crash after the restart restarts it at most once more.
#pragma once

#include <map>

#include "machined/extensions/extension-container.h"
#include "machined/extensions/image-extensions.h"
#include "machined/resources/store.h"
#include "machined/services/containers/containerd-connection.h"
#include "machined/services/supervisor.h"

namespace talos::machined {

class ExtensionServices {
 public:
  struct Dependencies {
    Supervisor& supervisor;
    Containerd& containerd;
    Store& store;
    ImageExtensions& image;
    kj::Function<int(int)> allowedScore;  // that this process may set
    kj::String configFolder = kj::str(kExtensionConfigFolder);
  };
  explicit ExtensionServices(Dependencies deps) : deps(kj::mv(deps)) {}
  KJ_DISALLOW_COPY_AND_MOVE(ExtensionServices);

  // Loads and starts the services. They wait for containerd and for what their files name.
  void load();

  // Returns true if an extension of the image has this service.
  bool has(kj::StringPtr name) const;

  // Takes the documents of the present config, of which those of other services have no effect, and
  // restarts the services whose documents have changed.
  kj::Promise<void> configure(kj::Vector<ExtensionConfig> configs);

 private:
  Dependencies deps;
  std::map<kj::StringPtr, ExtensionConfig> configs;  // by name
  bool configured = false;

  ServiceDefinition definitionOf(extension::ServiceFile::Reader service);
  ContainerSpec containerOf(extension::ServiceFile::Reader service);
  kj::Maybe<const ExtensionConfig&> configOf(kj::StringPtr name) const;
  kj::String digestFile(kj::StringPtr name) const;
  void writeFiles(kj::StringPtr name);
  bool runs(kj::StringPtr id) const;
};

}  // namespace talos::machined
