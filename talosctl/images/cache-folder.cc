#include "talosctl/images/cache-folder.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/folder.h"
#include "common/base/sha256.h"

namespace talos::talosctl {
namespace {

using imagecache::ImageName;

constexpr mode_t kFolderMode = 0755, kFileMode = 0644;  // registryd is not root

bool exists(kj::StringPtr path) {
  struct stat info;
  return lstat(path.cStr(), &info) == 0;
}

void renameDurably(kj::StringPtr from, kj::StringPtr to) {
  KJ_SYSCALL(rename(from.cStr(), to.cStr()), from, to);
  syncFolder(folderOf(to));
}

kj::String withoutEndingSlashes(kj::StringPtr path) {
  size_t size = path.size();
  while (size > 1 && path[size - 1] == '/') --size;
  return kj::heapString(path.slice(0, size));
}

}  // namespace

CacheFolder::CacheFolder(kj::StringPtr path, bool force)
    : target(withoutEndingSlashes(path)), work(kj::str(target, ".unfinished")) {
  if (exists(target)) {
    if (!force) {
      fail(ErrorKind::kConflict, kj::str(target, " exists; use --force to add the images to it"));
    }
    if (exists(work)) {
      fail(ErrorKind::kConflict, kj::str(target, " and ", work, " exist; remove one of the two"));
    }
    if (!exists(kj::str(target, "/", imagecache::kManifests))) {
      fail(ErrorKind::kInvalidArgument, kj::str(target, " exists, and is not a cache of images"));
    }
    renameDurably(target, work);
  }
  for (auto part : {imagecache::kBlobs, imagecache::kManifests})
    makeDirectories(kj::str(work, "/", part), kFolderMode);
  removeUnfinished(kj::str(work, "/", imagecache::kBlobs));
}

void CacheFolder::finish() {
  renameDurably(work, target);
}

// A file in the folder of blobs is whole: it got its name when its digest was right.
bool CacheFolder::hasBlob(const Descriptor& blob) const {
  struct stat info;
  auto path = kj::str(work, "/", imagecache::blobPath(blob.digest));
  return lstat(path.cStr(), &info) == 0 && S_ISREG(info.st_mode) &&
         static_cast<uint64_t>(info.st_size) == blob.size;
}

void CacheFolder::writeManifest(const ImageName& image, kj::StringPtr reference,
                                kj::ArrayPtr<const char> content) {
  auto path =
      kj::str(work, "/", imagecache::manifestPath(image.registry, image.repository, reference));
  makeDirectories(folderOf(path), kFolderMode);
  writeFileAtomically(path, content, kFileMode);
}

CacheFolder::Blob::Blob(kj::StringPtr folder, kj::StringPtr digest)
    : path(kj::str(folder, "/", imagecache::blobPath(digest))),
      temporary(kj::str(path, ".unfinished-XXXXXX")) {
  int fd = mkostemp(temporary.begin(), O_CLOEXEC);
  if (fd < 0)
    fail(ErrorKind::kUnavailable, kj::str("cannot write ", temporary, ": ", strerror(errno)));
  file = kj::AutoCloseFd(fd);
}

CacheFolder::Blob::~Blob() noexcept(false) {
  if (!finished) unlink(temporary.cStr());
}

void CacheFolder::Blob::add(kj::ArrayPtr<const kj::byte> bytes) {
  while (bytes.size() > 0) {
    ssize_t size;
    KJ_SYSCALL(size = write(file, bytes.begin(), bytes.size()), temporary);
    bytes = bytes.slice(static_cast<size_t>(size), bytes.size());
  }
}

void CacheFolder::Blob::finish() {
  KJ_SYSCALL(fchmod(file, kFileMode), temporary);
  KJ_SYSCALL(fsync(file), temporary);
  renameDurably(temporary, path);
  finished = true;
}

namespace {

class ImageAddition {
 public:
  ImageAddition(RegistryClient& client, CacheFolder& folder, const ImageName& image,
                kj::ArrayPtr<const kj::String> platforms)
      : client(client), folder(folder), image(image), platforms(platforms) {}

  // The file of the tag is the last one: an image with a tag has all its parts.
  kj::Promise<AddedImage> run() {
    auto text = co_await client.manifest(image, image.reference());
    auto manifest = readManifest(text);
    if (manifest.isIndex) {
      for (auto part : chosen(manifest)) {
        auto content = co_await client.manifest(image, part->digest);
        auto inner = readManifest(content);
        if (inner.isIndex) fail(ErrorKind::kInvalidArgument, "the index has another index in it");
        co_await addParts(inner);
        folder.writeManifest(image, part->digest, content);
      }
    } else {
      co_await addParts(manifest);
    }
    Sha256 sum;
    sum.add(text.asBytes());
    folder.writeManifest(image, kj::str("sha256:", sum.hex()), text);
    if (image.tag.size() > 0) folder.writeManifest(image, image.tag, text);
    co_return added;
  }

 private:
  RegistryClient& client;
  CacheFolder& folder;
  const ImageName& image;
  kj::ArrayPtr<const kj::String> platforms;
  AddedImage added;

  kj::Vector<const Descriptor*> chosen(const Manifest& index) {
    kj::Vector<const Descriptor*> parts;
    if (platforms.size() == 0) {
      for (auto& part : index.parts) parts.add(&part);
    }
    for (auto& platform : platforms) {
      auto before = parts.size();
      for (auto& part : index.parts) {
        if (isPlatform(part.platform, platform)) parts.add(&part);
      }
      if (parts.size() == before) {
        fail(ErrorKind::kInvalidArgument, kj::str("the registry has no image for ", platform));
      }
    }
    return parts;
  }

  kj::Promise<void> addParts(const Manifest& manifest) {
    for (auto& part : manifest.parts) {
      if (folder.hasBlob(part)) {
        ++added.present;
        continue;
      }
      CacheFolder::Blob file(folder.path(), part.digest);
      co_await client.blob(image, part,
                           [&file](kj::ArrayPtr<const kj::byte> bytes) { file.add(bytes); });
      file.finish();
      ++added.blobs;
      added.bytes += part.size;
    }
  }
};

}  // namespace

kj::Promise<AddedImage> addImage(RegistryClient& client, CacheFolder& folder,
                                 const ImageName& image, kj::ArrayPtr<const kj::String> platforms) {
  auto addition = kj::heap<ImageAddition>(client, folder, image, platforms);
  auto promise = addition->run();
  return promise.attach(kj::mv(addition));
}

}  // namespace talos::talosctl
