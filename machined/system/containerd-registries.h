// Renders machine.registries, and machine.baseRuntimeSpecOverrides, as the files that
// containerd 1.7 reads (its docs/hosts.md and docs/cri). Pure.
//
// The base file of the image, /etc/cri/containerd.toml, imports conf.d/10-registries.toml, then
// conf.d/cri.toml, then the user's files below /var. An imported file replaces a plugin's section
// as a whole, it does not merge into it: so 10-registries.toml has all of the section of the CRI
// plugin, cri.toml has that section with the user's part (kContainerdPart) merged into it, and a
// user's file below /var with such a section replaces it.
//
// Mirrors and TLS are hosts.toml files, which are read at each pull; credentials are in the
// plugin's section, which is read when containerd starts. hosts.toml is found by the registry in
// the image's name; credentials and TLS of the config belong to the host that is contacted.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "rpc/config.capnp.h"

namespace talos::machined {

constexpr kj::StringPtr kCriFolder = "/system/etc/cri"_kj;
// Image of every pod's network holder. Pods of all releases can use it.
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

// Decides if processes of containerd may get a lower OOM score than containerd itself. This needs
// CAP_SYS_RESOURCE, which a node in a container may lack, and then pods would not start.
enum class OomScores { kAny, kNotLower };
OomScores ownOomScores();

// Decides if containerd asks the node's cache of images before every registry and mirror
// (registryd/).
enum class CachePlace { kNone, kHere };

// Returns the files in writing order: a file comes after the files that it names. `folder` is their
// later place. `baseSpec`: the specification of containers, in JSON, in place of containerd's own;
// may be empty.
kj::Vector<RegistryFile> registryFiles(config::Registries::Reader registries,
                                       kj::StringPtr folder = kCriFolder,
                                       OomScores scores = OomScores::kAny,
                                       kj::StringPtr baseSpec = "",
                                       CachePlace cache = CachePlace::kNone);

// Returns the content of the entries of machine.files for kContainerdPart, in their order.
kj::Vector<kj::String> containerdParts(config::Machine::Reader machine);

// Returns the system's part of the configuration: the last of the files, which containerd waits
// for.
kj::StringPtr systemPart(kj::ArrayPtr<const RegistryFile> files);
// Adds the user's part as it is, and the file with both parts, before the system's part. `merged`
// is nullptr if they could not be merged.
void addContainerdParts(kj::Vector<RegistryFile>& files, kj::ArrayPtr<const kj::String> parts,
                        kj::Maybe<kj::String> merged);

// Makes the folder hold exactly these files. Each is replaced as a whole, 0600; after a crash the
// next call does the rest. Blocking.
void writeRegistryFiles(kj::StringPtr folder, kj::ArrayPtr<const RegistryFile> files);

}  // namespace talos::machined
