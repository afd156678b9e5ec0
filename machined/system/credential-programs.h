// The programs of the image that give the kubelet the credentials of registries
// (machine.kubelet.credentialProviderConfig). They are read-only files of the system, so the answer
// changes with the system alone. Blocking.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::machined {

constexpr kj::StringPtr kCredentialPrograms = "/usr/local/lib/kubelet/credentialproviders"_kj;

// A program that this system does not have, by its place in the list.
struct MissingProgram {
  size_t entry;
  kj::String name, problem;
};
// Looks below `root`, "" but in tests.
kj::Vector<MissingProgram> missingPrograms(kj::StringPtr root,
                                           kj::ArrayPtr<const kj::String> names);

}  // namespace talos::machined
