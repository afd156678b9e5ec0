// machine.registries as the files that containerd 1.7 reads (its docs/hosts.md and docs/cri). Pure.
//
// The base file of the image, /etc/cri/containerd.toml, imports what is made here and then the
// user's files. An imported file replaces a plugin's section as a whole, it does not merge into it:
// so the one file here holds all that the section of the CRI plugin has, and a user's file with
// such a section replaces it.
//
// Mirrors and TLS are hosts.toml files, which are read at each pull; credentials are in the
// plugin's section, which is read when containerd starts. hosts.toml is looked up by the registry
// in the image's name; credentials and TLS of the config belong to the host that is asked.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "rpc/config.capnp.h"

namespace talos::machined {

constexpr kj::StringPtr kCriFolder = "/system/etc/cri"_kj;
// Of every pod: what holds its network. Pods of all releases do with it.
constexpr kj::StringPtr kPauseImage = "registry.k8s.io/pause:3.10"_kj;

struct RegistryFile {
  kj::String path;     // below the folder
  kj::String content;  // zeroed on destruction: credentials and keys
  RegistryFile(kj::String path, kj::String content)
      : path(kj::mv(path)), content(kj::mv(content)) {}
  RegistryFile(RegistryFile&&) = default;
  RegistryFile& operator=(RegistryFile&&) = default;
  ~RegistryFile() noexcept(false);
};

// Decides if processes of containerd may get a lower OOM score than containerd itself has: that
// needs CAP_SYS_RESOURCE, which a node in a container may be without, and pods would not start.
enum class OomScores { kAny, kNotLower };
OomScores ownOomScores();

// In the order in which they are to be written: what a file names comes before it. `folder` is
// where they will be.
kj::Vector<RegistryFile> registryFiles(config::Registries::Reader registries,
                                       kj::StringPtr folder = kCriFolder,
                                       OomScores scores = OomScores::kAny);

// Makes the folder hold these files and no others. Each is replaced as a whole, 0600; after a crash
// the next call does the rest. Blocking.
void writeRegistryFiles(kj::StringPtr folder, kj::ArrayPtr<const RegistryFile> files);

}  // namespace talos::machined
