// The layout of a cache of images: a folder with what registries would send, which `talosctl image
// cache-create` fills and registryd serves. Pure.
//
//   blob/sha256-<hex>                                          layers and configs of images
//   manifests/<registry>/<repository>/reference/<tag>          manifests and indexes, byte for byte
//   manifests/<registry>/<repository>/digest/sha256-<hex>
//
// A registry host:port is the folder host_port_. Names come from users and from requests, and
// become paths: every part was checked, so none is empty, begins with a dot or has a slash of its
// own.
#pragma once

#include <kj/string.h>
#include <stdint.h>

namespace talos::imagecache {

// Folders of a node with caches, in the order in which they are looked through: the folder that the
// launcher of a node in a container hands in, and that of a medium.
constexpr kj::StringPtr kCacheFolder = "/system/imagecache"_kj;
constexpr kj::StringPtr kDiskRoot = "/system/imagecache/disk"_kj;
constexpr kj::StringPtr kMediumMount = "/system/imagecache/iso"_kj;
constexpr kj::StringPtr kMediumRoot = "/system/imagecache/iso/imagecache"_kj;
constexpr kj::StringPtr kCacheRoots[] = {kDiskRoot, kMediumRoot};

// Id of the only ImageCacheConfig.
constexpr kj::StringPtr kConfigId = "image-cache"_kj;
constexpr kj::StringPtr kBlobs = "blob"_kj, kManifests = "manifests"_kj;
// No manifest or index is larger; registries have the same limit.
constexpr size_t kMostManifest = 4u << 20;

// The parts of an image's name as a registry wants them: "docker.io", "library/busybox", "1.37".
struct ImageName {
  kj::String registry, repository;
  kj::String tag;     // empty if the name has only a digest
  kj::String digest;  // sha256:…; empty if the name has only a tag

  // Returns "docker.io/library/busybox:1.37".
  kj::String text() const;
  // Returns the digest, or else the tag.
  kj::StringPtr reference() const { return digest.size() > 0 ? digest : tag; }
};
// Reads a name as users write it: without a registry it is one of docker.io, without tag and digest
// it has the tag latest. Throws InvalidArgument.
ImageName parseImageName(kj::StringPtr text);

bool isRegistryName(kj::StringPtr text);  // host or host:port
bool isRepositoryName(kj::StringPtr text);
bool isTag(kj::StringPtr text);
bool isDigest(kj::StringPtr text);  // sha256:<64 lower-case hex digits>

// Return paths below the folder of the cache. All parts must be valid.
kj::String blobPath(kj::StringPtr digest);
kj::String repositoryPath(kj::StringPtr registry, kj::StringPtr repository);
kj::String manifestPath(kj::StringPtr registry, kj::StringPtr repository, kj::StringPtr reference);

}  // namespace talos::imagecache
