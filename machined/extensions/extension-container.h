// The container of a system extension's service, from the service's file and from the document
// ExtensionServiceConfig of the machine config. Pure.
#pragma once

#include "machined/confined/parser-client/extension-config.h"
#include "machined/services/containers/container-run.h"
#include "rpc/extensions.capnp.h"

namespace talos::machined {

// The folder with the files of a document, which only root can enter.
constexpr kj::StringPtr kExtensionConfigFolder = "/system/overlays/extensions"_kj;
// Returns the path of a file below `folder`.
kj::String extensionConfigPath(kj::StringPtr folder, kj::StringPtr service,
                               kj::StringPtr mountPath);

// Returns the container, without ID, cgroup and score. `environment`: the lines of the service's
// environmentFile; `configFolder`: where the files of `config` are.
ContainerSpec extensionContainer(extension::ServiceFile::Reader service,
                                 kj::ArrayPtr<const kj::String> environment,
                                 kj::Maybe<const ExtensionConfig&> config,
                                 kj::StringPtr configFolder = kExtensionConfigFolder);

// Returns the variables in the text of an environmentFile: a line K=V each; # begins a comment.
kj::Vector<kj::String> variablesOf(kj::StringPtr text);

// Returns the digest of a document, by which a change is found. nullptr: that of no document.
kj::String digestOfConfig(kj::Maybe<const ExtensionConfig&> config);

}  // namespace talos::machined
